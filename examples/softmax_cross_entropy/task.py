"""Cross entropy of a language model's head: mean over rows of log(sum exp(logits)) -
logits[target]."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, target):
        log_probabilities = torch.log_softmax(logits, dim=-1)
        return -log_probabilities.gather(1, target.unsqueeze(1)).squeeze(1).mean()


BASELINES = {"F.cross_entropy": lambda: F.cross_entropy}

CASES = {
    "head_512x32000": {"rows": 512, "classes": 32000},
    "labels_4096x1000": {"rows": 4096, "classes": 1000},
    "odd_33x5003": {"rows": 33, "classes": 5003},
}
WEIGHTS = {"head_512x32000": 2.0, "labels_4096x1000": 1.0}
PROTECTED = ["labels_4096x1000"]
HELD_OUT = ["odd_33x5003"]


def get_inputs(rows=512, classes=32000):
    return [3.0 * torch.randn(rows, classes), torch.randint(0, classes, (rows,))]


def get_init_inputs():
    return []
