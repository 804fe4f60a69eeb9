"""Cross entropy of a language model's head at the sizes and in the dtypes of a GPU: half-precision
logits, a loss in float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, target):
        log_probabilities = torch.log_softmax(logits.float(), dim=-1)
        return -log_probabilities.gather(1, target.unsqueeze(1)).squeeze(1).mean()


def fused():
    return lambda logits, target: F.cross_entropy(logits.float(), target)


BASELINES = {
    "F.cross_entropy": fused,
    "F.cross_entropy, compiled": lambda: torch.compile(fused(), dynamic=False),
}

CASES = {
    "head_2048x32000": {"rows": 2048, "classes": 32000, "dtype": "float16"},
    "head_1024x128256": {"rows": 1024, "classes": 128256, "dtype": "bfloat16"},
    "labels_8192x1000": {"rows": 8192, "classes": 1000, "dtype": "float16"},
    "odd_33x5003": {"rows": 33, "classes": 5003, "dtype": "bfloat16"},
}
PROTECTED = ["labels_8192x1000"]
HELD_OUT = ["odd_33x5003"]


def get_inputs(rows=2048, classes=32000, dtype="float16"):
    return [
        (3.0 * torch.randn(rows, classes)).to(getattr(torch, dtype)),
        torch.randint(0, classes, (rows,)),
    ]


def get_init_inputs():
    return []
