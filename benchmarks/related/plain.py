"""What the plain kernels share: how much the compiler may do is their parameters' choice, and the
task's constructor is theirs."""

from __future__ import annotations

HEAD = '''"""A plain starting kernel; its parameters decide how much the compiler may do with it."""

import torch
import torch.nn as nn

from harness.native import load_cpp

TUNABLES = {
    "LEVEL": ["-O1", "-O2", "-O3"],
    "MATH": ["-fno-fast-math", "-fassociative-math -fno-signed-zeros -fno-trapping-math", "-ffast-math -fno-finite-math-only"],
    "WIDTH": [128, 256, 512],
    "UNROLL": [0, 1],
}
PARAMS = {"LEVEL": "-O1", "MATH": "-fno-fast-math", "WIDTH": 128, "UNROLL": 0}

'''  # noqa: E501
LOAD = """
_flags = [PARAMS["LEVEL"], *PARAMS["MATH"].split(), f"-mprefer-vector-width={PARAMS['WIDTH']}"]
_lib = load_cpp(SOURCE, flags=[*_flags, *(["-funroll-loops"] if PARAMS["UNROLL"] else [])])

"""
IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


def task(body: str, inputs: str, init: str = "[]") -> str:
    """A task's text. body: the methods of Model, indented by four."""
    return (
        f"{IMPORTS}class Model(nn.Module):\n{body}\n\ndef get_inputs():\n    return {inputs}\n\n\n"
        f"def get_init_inputs():\n    return {init}\n"
    )


def start(source: str, body: str) -> str:
    """A candidate's text. source: C++. body: the methods of ModelNew, indented by four."""
    return (
        f'{HEAD}SOURCE = r"""\n#include <cmath>\n#include <cstdint>\n\n{source}"""\n{LOAD}\n'
        f"class ModelNew(nn.Module):\n{body}"
    )
