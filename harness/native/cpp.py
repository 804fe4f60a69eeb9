"""C++ for the CPU, called through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .building import BuildOrder, BuiltFile, NativeError, build, build_once, macros
from .float_state import same_float_state
from .prototypes import POINTED, Prototype, read_prototypes, signature

DEFAULT_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fopenmp")
# Static variables of templates are one for all libraries of a process otherwise.
GNU_FLAGS = ("-fno-gnu-unique",)


def load_cpp(
    source: str,
    flags: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    signatures: Mapping[str, str] | None = None,
) -> CppLibrary:
    """Compile `source` and return its functions as attributes.

    flags: appended to DEFAULT_FLAGS, so they take precedence. defines: name -> value, passed as
    -Dname=value (True and False as 1 and 0). signatures: name -> one letter per argument, for
    functions whose prototype cannot be read: p pointer, l int64, i int32, f float, d double, b
    bool. Raises NativeError with the compiler's output.
    """
    prototypes = read_prototypes(source)
    for name, letters in (signatures or {}).items():
        prototypes[name] = signature(name, letters)
    built = build(BuildOrder("cpp", source, macros(flags, defines)), build_here)
    try:
        with same_float_state():
            handle = ctypes.CDLL(built.path)
        return CppLibrary(handle, prototypes, built.identity)
    except OSError as error:
        raise NativeError(
            f"the library was built but cannot be loaded: {error}. Is every called function "
            "defined?"
        ) from error


def find_compiler() -> str | None:
    """Return the path of the C++ compiler: $CXX, else g++, clang++, c++; None without one."""
    names = [os.environ.get("CXX", ""), "g++", "clang++", "c++"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def compile_command(compiler: str, source: str, output: str, flags: Sequence[str]) -> list[str]:
    """Return the whole command line. clang gets no -fopenmp, since its OpenMP runtime is often
    missing, and does not know GNU_FLAGS."""
    if "clang" in os.path.basename(compiler):
        defaults = [flag for flag in DEFAULT_FLAGS if flag != "-fopenmp"]
    else:
        defaults = [*DEFAULT_FLAGS, *GNU_FLAGS]
    return [compiler, *defaults, *flags, "-x", "c++", source, "-o", output]


def build_here(order: BuildOrder) -> BuiltFile:
    """Compile with this machine's compiler into the user's cache."""
    compiler = find_compiler()
    if compiler is None:
        raise NativeError(
            "no C++ compiler found; install g++ (Debian: apt-get install g++) or set CXX"
        )

    def make(target: Path) -> dict[str, str]:
        text = target.with_suffix(".cpp")
        text.write_text(order.source)
        command = compile_command(compiler, str(text), str(target), order.flags)
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise NativeError(
                "the C++ compiler refused the source:\n"
                f"{process.stderr.replace(str(text), 'kernel.cpp')}"
            )
        return {}

    # another compiler, other defaults or another processor (-march=native) make another library
    command = compile_command(compiler, "", "", ())
    there = os.stat(os.path.realpath(compiler))
    toolchain = [command, there.st_size, there.st_mtime_ns, platform.node(), _processor()]
    return build_once(order, repr(toolchain), ".so", make)


def _processor() -> str:
    """Return what the processor can do, as Linux says it; "" where nobody says it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return ""


_CTYPES: dict[str, Any] = {
    "p": ctypes.c_void_p, "f": ctypes.c_float, "d": ctypes.c_double, "b": ctypes.c_bool,
    "c": ctypes.c_int8, "s": ctypes.c_int16, "h": ctypes.c_uint16, "i": ctypes.c_int32,
    "l": ctypes.c_int64, "v": None,
}  # fmt: skip


class CppLibrary:
    """The functions of one compiled source, as attributes. identity: equal for equal builds."""

    def __init__(
        self, handle: ctypes.CDLL, prototypes: Mapping[str, Prototype], identity: str = ""
    ) -> None:
        self._handle, self._identity = handle, identity
        self._prototypes = dict(prototypes)

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        prototype = self._prototypes.get(name)
        if prototype is None:
            names = ", ".join(self._prototypes) or "none"
            raise NativeError(
                f'no extern "C" function {name!r} with a readable prototype (found: {names}); '
                f'declare it extern "C" with plain types, or pass signatures={{"{name}": "pplf"}}'
            )
        try:
            symbol = getattr(self._handle, name)
        except AttributeError:
            raise NativeError(
                f'{name!r} is declared but the library does not define it; is it extern "C"?'
            ) from None
        function = Function(prototype, symbol, self._identity)
        self.__dict__[name] = function  # the next access skips this look-up
        return function


class Function:
    """One C function. Tensors become pointers after a check of device, layout and dtype; numbers
    are converted as in C."""

    def __init__(self, prototype: Prototype, symbol: Any, library: str = "") -> None:
        self.name, self.library = prototype.name, library  # for records of what was called
        symbol.argtypes = [_CTYPES[letter] for letter, _ in prototype.arguments]
        symbol.restype = _CTYPES[prototype.returns]
        self._symbol = symbol
        self._prototype = prototype
        self._count = len(prototype.arguments)
        # of each pointer: its place, the dtypes that it takes (any if none), those seen so far
        self._pointers: list[tuple[int, frozenset[str], set[Any]]] = [
            (place, frozenset(f"torch.{dtype}" for dtype in POINTED.get(pointed, ())), set())
            for place, (letter, pointed) in enumerate(prototype.arguments)
            if letter == "p"
        ]

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) != self._count:
            raise NativeError(
                f"{self._prototype.name} takes {self._count} arguments, got {len(arguments)}"
            )
        converted = list(arguments)
        for place, accepted, seen in self._pointers:
            argument = arguments[place]
            if hasattr(argument, "data_ptr"):
                if not (argument.dtype in seen and argument.is_contiguous() and argument.is_cpu):
                    self._check(place, argument, accepted)
                    seen.add(argument.dtype)
                converted[place] = argument.data_ptr()
        try:
            return self._symbol(*converted)
        except ctypes.ArgumentError as error:
            raise NativeError(
                f"{self._prototype.name}: {error}; the prototype is {self._prototype}"
            ) from error

    def _check(self, place: int, tensor: Any, accepted: frozenset[str]) -> None:
        """Raise NativeError for a tensor that cannot be passed."""
        if accepted and str(tensor.dtype) not in accepted:
            raise self._refusal(
                place,
                f"got {tensor.dtype}, the C function takes {' or '.join(sorted(accepted))}",
            )
        if not tensor.is_contiguous():
            raise self._refusal(
                place,
                "the tensor is not contiguous; call .contiguous(), or pass .data_ptr() and the "
                "strides",
            )
        if not tensor.is_cpu:
            raise self._refusal(
                place, f"the tensor is on {tensor.device}, but a C++ function needs it on the CPU"
            )

    def _refusal(self, place: int, reason: str) -> NativeError:
        return NativeError(f"{self._prototype.name}, argument {place + 1}: {reason}")
