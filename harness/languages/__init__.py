"""Languages of candidates, by name."""

from __future__ import annotations

from .base import Language
from .cpp import Cpp
from .cuda import Cuda
from .triton import Triton

LANGUAGES: dict[str, Language] = {language.name: language for language in (Cpp(), Triton(), Cuda())}

__all__ = ["LANGUAGES", "Cpp", "Cuda", "Language", "Triton"]
