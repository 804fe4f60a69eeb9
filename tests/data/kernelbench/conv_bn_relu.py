import torch
import torch.nn as nn


class Model(nn.Module):
    """Convolution, batch normalization with fixed statistics, rectifier."""

    def __init__(self, channels_in, channels_out, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size, padding=kernel_size // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)
        self.norm.running_mean.uniform_(-0.2, 0.2)
        self.norm.running_var.uniform_(0.5, 2.0)
        self.norm.eval()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


batch = 2
channels_in = 8
channels_out = 12
side = 24
kernel_size = 3


def get_inputs():
    return [torch.randn(batch, channels_in, side, side)]


def get_init_inputs():
    return [channels_in, channels_out, kernel_size]
