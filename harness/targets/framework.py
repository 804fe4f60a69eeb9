"""The version of the installed torch, read from its version.py, because importing torch takes
seconds."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Framework:
    """The installed torch. version: as torch spells it ("2.13.0+cpu"). cuda: the CUDA version that
    it was built with, "" without CUDA."""

    version: str
    cuda: str


@lru_cache(maxsize=1)
def installed() -> Framework:
    """Read the version. Raises ImportError where torch is not installed."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise ImportError("torch is not installed")
    versions = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    return Framework(str(versions["__version__"]), str(versions["cuda"] or ""))
