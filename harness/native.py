"""Compile C++ held as text and call it: the one file a candidate imports, and an export copies.

    lib = load_cpp(SOURCE, flags=("-ffast-math",), defines={"UNROLL": 4})
    lib.rmsnorm(x, weight, y, rows, cols, eps)

Functions are plain C ABI (`extern "C"`), called through ctypes. Inside an evaluation the source goes to the judge's confined
build service; anywhere else it is compiled with the machine's own compiler into a cache folder of the user.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

DEFAULT_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fopenmp")

Builder = Callable[[str, tuple[str, ...]], str]
_builder: Builder | None = None  # an evaluation's worker puts its own here: (source, flags) -> path of the library


class NativeError(RuntimeError):
    """The source could not be compiled, loaded or called; the message carries the compiler's words or the mend."""


def use_builder(builder: Builder | None) -> None:
    """Route builds elsewhere (None: compile here). Called by the evaluator, not by candidates."""
    global _builder
    _builder = builder


def load_cpp(
    source: str,
    flags: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    signatures: Mapping[str, str] | None = None,
) -> Library:
    """Compile `source` and return its functions as attributes.

    flags: appended to DEFAULT_FLAGS, so they win. defines: name -> value, passed as -Dname=value (True and False as 1 and 0).
    signatures: name -> one letter an argument for functions whose prototype cannot be read: p pointer, l int64, i int32,
    f float, d double, b bool. Raises NativeError with the compiler's output.
    """
    for name, value in (defines or {}).items():
        flags = (*flags, f"-D{name}={int(value) if isinstance(value, bool) else value}")
    prototypes = read_prototypes(source)
    for name, letters in (signatures or {}).items():
        prototypes[name] = Prototype(name, "v", tuple((letter, "") for letter in letters))
    path = (_builder or build_here)(source, tuple(flags))
    try:
        return Library(ctypes.CDLL(path), prototypes)
    except OSError as error:
        raise NativeError(
            f"the library was built but cannot be loaded: {error}. Is every function that is called defined?"
        ) from error


# ---- building on this machine ------------------------------------------------------------------------------------


def find_compiler() -> str | None:
    """Path of the C++ compiler: $CXX, else g++, clang++, c++; None without one."""
    names = [os.environ.get("CXX", ""), "g++", "clang++", "c++"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def compile_command(compiler: str, source: str, output: str, flags: Sequence[str]) -> list[str]:
    """The whole command line; clang goes without OpenMP, whose runtime it often lacks."""
    defaults = [f for f in DEFAULT_FLAGS if not (f == "-fopenmp" and "clang" in os.path.basename(compiler))]
    return [compiler, *defaults, *flags, "-x", "c++", source, "-o", output]


def build_here(source: str, flags: tuple[str, ...]) -> str:
    """Compile into the user's cache (KEVOLVE_NATIVE_CACHE, else ~/.cache/kevolve/native); equal input is built once."""
    compiler = find_compiler()
    if compiler is None:
        raise NativeError("no C++ compiler found; install g++ (Debian: apt-get install g++) or set CXX")
    root = os.environ.get("KEVOLVE_NATIVE_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "kevolve", "native")
    stamp = f"{compiler}\0{platform.node()}\0{flags}\0{source}"
    target = Path(root) / f"{hashlib.sha256(stamp.encode()).hexdigest()[:32]}.so"
    if target.exists():
        return str(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        text, built = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        text.write_text(source)
        done = subprocess.run(
            compile_command(compiler, str(text), str(built), flags), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NativeError(f"the C++ compiler refused the source:\n{done.stderr.replace(str(text), 'kernel.cpp')}")
        os.replace(built, target)
    return str(target)


# ---- prototypes --------------------------------------------------------------------------------------------------

_KINDS = {
    "float": "f", "double": "d", "bool": "b", "char": "c", "int8_t": "c", "uint8_t": "c",
    "int": "i", "int32_t": "i", "unsigned": "i", "unsigned int": "i", "uint32_t": "i",
    "long": "l", "long int": "l", "long long": "l", "int64_t": "l", "uint64_t": "l", "size_t": "l", "ssize_t": "l",
    "unsigned long": "l", "ptrdiff_t": "l", "intptr_t": "l",
}  # fmt: skip
_CTYPES: dict[str, Any] = {
    "p": ctypes.c_void_p, "f": ctypes.c_float, "d": ctypes.c_double, "b": ctypes.c_bool, "c": ctypes.c_int8,
    "i": ctypes.c_int32, "l": ctypes.c_int64, "v": None,
}  # fmt: skip
_POINTED = {
    "float": ("float32",), "double": ("float64",), "bool": ("bool",), "char": ("int8", "uint8", "bool"),
    "int8_t": ("int8", "bool"), "uint8_t": ("uint8", "bool"), "int": ("int32",), "int32_t": ("int32",),
    "uint32_t": ("int32", "uint32"), "long": ("int64",), "long long": ("int64",), "int64_t": ("int64",),
    "uint64_t": ("int64", "uint64"), "int16_t": ("int16",), "uint16_t": ("float16", "bfloat16", "int16", "uint16"),
    "_Float16": ("float16",), "__bf16": ("bfloat16",),
}  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_EXTERN = re.compile(r'\bextern\s+"C"\s*(\{)?')
_FUNCTION = re.compile(r"((?:[\w:]+[\s*&]+)+)(\w+)\s*\(([^()]*)\)\s*(?:noexcept\s*)?[{;]", re.DOTALL)
_NOISE = re.compile(
    r"\b(?:const|restrict|__restrict__|__restrict|static|inline|extern|struct|volatile|std::)\b|std::|__attribute__\(\(.*?\)\)"
)


class Prototype:
    """name, the letter of the return type, and per argument (letter, pointed-to C type or "")."""

    def __init__(self, name: str, returns: str, arguments: tuple[tuple[str, str], ...]) -> None:
        self.name, self.returns, self.arguments = name, returns, arguments


def read_prototypes(source: str) -> dict[str, Prototype]:
    """The `extern "C"` functions of a source whose types are understood; others need `signatures`."""
    text = _COMMENT.sub(" ", source)
    found: dict[str, Prototype] = {}
    for match in _EXTERN.finditer(text):
        body = _block(text, match.end()) if match.group(1) else _head(text, match.end())
        for function in _FUNCTION.finditer(body):
            prototype = _prototype(*function.groups())
            if prototype is not None:
                found.setdefault(prototype.name, prototype)
    return found


def _block(text: str, start: int) -> str:
    """What stands directly inside the braces opened before `start`, nested bodies reduced to `{`."""
    depth, kept = 1, []
    for char in text[start:]:
        depth += (char == "{") - (char == "}")
        if depth == 0:
            break
        if depth == 1 or (char == "{" and depth == 2):
            kept.append(char)
    return "".join(kept).replace("}", ";")


def _head(text: str, start: int) -> str:
    end = min((i for i in (text.find("{", start), text.find(";", start)) if i >= 0), default=len(text) - 1)
    return text[start : end + 1]


def _prototype(returns: str, name: str, arguments: str) -> Prototype | None:
    kind = _kind(returns)
    listed = [a for a in (part.strip() for part in arguments.split(",")) if a and a != "void"]
    kinds = [_kind(re.sub(r"\b\w+\s*(\[\s*\])?$", lambda m: "*" if m.group(1) else "", a) if _named(a) else a) for a in listed]
    if kind is None or any(k is None for k in kinds):
        return None
    return Prototype(name, kind[0], tuple(k for k in kinds if k is not None))


def _named(argument: str) -> bool:
    words = re.findall(r"\w+", _NOISE.sub(" ", argument))
    return len(words) > 1 and " ".join(words) not in _KINDS


def _kind(text: str) -> tuple[str, str] | None:
    plain = " ".join(_NOISE.sub(" ", text).replace("*", " * ").split())
    if "*" in plain:
        return ("p", plain.replace("*", "").strip()) if plain.count("*") == 1 else ("p", "void")
    if plain == "void":
        return ("v", "")
    return (_KINDS[plain], "") if plain in _KINDS else None


# ---- calling -----------------------------------------------------------------------------------------------------


class Library:
    """The functions of one compiled source, as attributes."""

    def __init__(self, handle: ctypes.CDLL, prototypes: Mapping[str, Prototype]) -> None:
        self._handle = handle
        self._prototypes = dict(prototypes)

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        prototype = self._prototypes.get(name)
        if prototype is None:
            known = ", ".join(self._prototypes) or "none"
            raise NativeError(
                f'no extern "C" function {name!r} with a readable prototype (found: {known}); '
                f'declare it extern "C" with plain types, or pass signatures={{"{name}": "pplf"}}'
            )
        try:
            symbol = getattr(self._handle, name)
        except AttributeError:
            raise NativeError(f'{name!r} is declared but the library does not define it; is it extern "C"?') from None
        function = Function(prototype, symbol)
        self.__dict__[name] = function  # the next access skips this look-up
        return function


class Function:
    """One C function. Tensors become pointers after a check of device, layout and dtype; numbers convert as C would."""

    def __init__(self, prototype: Prototype, symbol: Any) -> None:
        symbol.argtypes = [_CTYPES[letter] for letter, _ in prototype.arguments]
        symbol.restype = _CTYPES[prototype.returns]
        self._symbol = symbol
        self._prototype = prototype
        self._accepted = tuple(
            frozenset(f"torch.{d}" for d in _POINTED.get(pointed, ())) if letter == "p" else None
            for letter, pointed in prototype.arguments
        )
        self._seen: set[tuple[int, Any]] = set()  # (argument, dtype) found right before: spares the text comparison

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) != len(self._accepted):
            raise NativeError(f"{self._prototype.name} takes {len(self._accepted)} arguments, got {len(arguments)}")
        converted = [
            a if accepted is None or not hasattr(a, "data_ptr") else self._pointer(i, a, accepted)
            for i, (a, accepted) in enumerate(zip(arguments, self._accepted, strict=True))
        ]
        try:
            return self._symbol(*converted)
        except ctypes.ArgumentError as error:
            raise NativeError(f"{self._prototype.name}: {error}; the prototype is {self._describe()}") from error

    def _pointer(self, index: int, tensor: Any, accepted: frozenset[str]) -> int:
        if (index, tensor.dtype) not in self._seen:
            if accepted and str(tensor.dtype) not in accepted:
                raise self._refused(index, f"got {tensor.dtype}, the C function wants {' or '.join(sorted(accepted))}")
            self._seen.add((index, tensor.dtype))
        if not tensor.is_contiguous():
            raise self._refused(index, "the tensor is not contiguous; call .contiguous(), or pass .data_ptr() and the strides")
        if not tensor.is_cpu:
            raise self._refused(index, f"the tensor is on {tensor.device}, a C++ function needs it on the CPU")
        pointer: int = tensor.data_ptr()
        return pointer

    def _refused(self, index: int, reason: str) -> NativeError:
        return NativeError(f"{self._prototype.name}, argument {index + 1}: {reason}")

    def _describe(self) -> str:
        kinds = (f"{pointed}*" if letter == "p" else letter for letter, pointed in self._prototype.arguments)
        return f"{self._prototype.name}({', '.join(kinds)})"
