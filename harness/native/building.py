"""Build orders, their builders, and this machine's cache of built files."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


class NativeError(RuntimeError):
    """The source could not be compiled, loaded or called. The message gives the compiler's output
    or the fix."""


class SourceRefused(NativeError):
    """The compiler refused the source. The message is its output."""


@dataclass(frozen=True)
class BuildOrder:
    """An order for one build. language: "cpp" or "cuda". architecture: of a GPU, as its compiler
    spells it ("sm_90a"). names: the kernels whose symbols are wanted, with template arguments
    ("scale<float, 4>")."""

    language: str
    source: str
    flags: tuple[str, ...] = ()
    architecture: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltFile:
    """The result of a build. path: a file with the library or the device binary, readable in this
    process. symbols: by the names in the order. identity: equal for equal builds."""

    path: str
    symbols: dict[str, str] = field(default_factory=dict)
    identity: str = ""


Builder = Callable[[BuildOrder], BuiltFile]
_builder: Builder | None = None  # set by an evaluation's worker


def use_builder(builder: Builder | None) -> None:
    """Replace the builder (None: compile in this process). Called by the evaluator, not by
    candidates."""
    global _builder
    _builder = builder


def build(order: BuildOrder, local: Builder) -> BuiltFile:
    """Build with the evaluator's builder inside an evaluation, else with `local`. Raises
    NativeError."""
    return (_builder or local)(order)


def macros(flags: Sequence[str], defines: Mapping[str, object] | None) -> tuple[str, ...]:
    """Return the flags with a -D for each define; True and False as 1 and 0."""
    return (
        *flags,
        *(
            f"-D{name}={int(v) if isinstance(v, bool) else v}"
            for name, v in (defines or {}).items()
        ),
    )


def build_once(
    order: BuildOrder, toolchain: str, suffix: str, make: Callable[[Path], dict[str, str]]
) -> BuiltFile:
    """Build once for equal orders and toolchains, in the user's cache (KEVOLVE_NATIVE_CACHE, else
    ~/.cache/kevolve/native). make: writes the file at the path it gets and returns the symbols."""
    root = os.environ.get("KEVOLVE_NATIVE_CACHE") or os.path.join(
        os.path.expanduser("~"), ".cache", "kevolve", "native"
    )
    stamp = json.dumps(
        [toolchain, order.language, order.source, order.flags, order.architecture, order.names]
    )
    digest = hashlib.sha256(stamp.encode()).hexdigest()[:32]
    target, listed = Path(root) / f"{digest}{suffix}", Path(root) / f"{digest}.json"
    if not target.exists() or not listed.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            library, names = Path(folder) / f"kernel{suffix}", Path(folder) / "names.json"
            names.write_text(json.dumps(make(library)))
            os.replace(names, listed)
            os.replace(library, target)
    return BuiltFile(str(target), json.loads(listed.read_text()), digest)
