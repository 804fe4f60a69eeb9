"""Reads C prototypes from the source text: the types of arguments, without a compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .building import NativeError

_KINDS = {
    "float": "f", "double": "d", "bool": "b", "char": "c", "int8_t": "c", "uint8_t": "c",
    "int": "i", "int32_t": "i", "unsigned": "i", "unsigned int": "i", "uint32_t": "i",
    "long": "l", "long int": "l", "long long": "l", "int64_t": "l", "uint64_t": "l", "size_t": "l",
    "ssize_t": "l",
    "unsigned long": "l", "unsigned long long": "l", "ptrdiff_t": "l", "intptr_t": "l",
    "short": "s", "int16_t": "s", "uint16_t": "s",
}  # fmt: skip
SPELLED = {
    "p": "pointer", "l": "int64", "i": "int32", "s": "int16", "c": "int8", "b": "bool",
    "f": "float", "d": "double", "h": "half",
}  # fmt: skip
# Pointed-to C type -> names of torch's dtypes that fit; a type that is not listed takes any tensor.
POINTED = {
    "float": ("float32",), "double": ("float64",), "bool": ("bool",),
    "char": ("int8", "uint8", "bool"), "int8_t": ("int8", "bool"), "uint8_t": ("uint8", "bool"),
    "int": ("int32",), "int32_t": ("int32",), "uint32_t": ("int32", "uint32"), "long": ("int64",),
    "long long": ("int64",), "int64_t": ("int64",), "uint64_t": ("int64", "uint64"),
    "int16_t": ("int16",), "uint16_t": ("float16", "bfloat16", "int16", "uint16"),
    "_Float16": ("float16",), "__bf16": ("bfloat16",),
}  # fmt: skip
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
EXTERN = re.compile(r'\bextern\s+"C"\s*(\{)?')
_FUNCTION = re.compile(
    r"((?:[\w:]+[\s*&]+)+)(\w+)\s*\(([^()]*)\)\s*(?:noexcept\s*)?[{;]", re.DOTALL
)
_NOISE = re.compile(
    r"\b(?:const|__grid_constant__|restrict|__restrict__|__restrict|static|inline|extern|struct|"
    r"volatile|std::)\b|std::|__attribute__\(\(.*?\)\)"
)


class Prototype:
    """A function's name, the letter of its return type, and for each argument (letter, pointed-to C
    type or "")."""

    def __init__(self, name: str, returns: str, arguments: tuple[tuple[str, str], ...]) -> None:
        self.name, self.returns, self.arguments = name, returns, arguments

    def __str__(self) -> str:
        kinds = (
            f"{pointed}*" if letter == "p" else SPELLED[letter]
            for letter, pointed in self.arguments
        )
        return f"{self.name}({', '.join(kinds)})"


def signature(name: str, letters: str) -> Prototype:
    """Build the prototype that a user gave by letters. Raises NativeError."""
    if unknown := set(letters) - set(SPELLED):
        accepted = ", ".join(f"{letter} {word}" for letter, word in SPELLED.items())
        raise NativeError(
            f"signatures: {name!r} has the letter {min(unknown)!r}; known letters: {accepted}"
        )
    return Prototype(name, "v", tuple((letter, "") for letter in letters))


def read_prototypes(source: str) -> dict[str, Prototype]:
    """Return the `extern "C"` functions of a source whose types are known; others need
    `signatures`."""
    text = COMMENT.sub(" ", source)
    prototypes: dict[str, Prototype] = {}
    for match in EXTERN.finditer(text):
        body = _block(text, match.end()) if match.group(1) else _head(text, match.end())
        for function in _FUNCTION.finditer(body):
            prototype = read_arguments(function.group(1), function.group(2), function.group(3))
            if prototype is not None:
                prototypes.setdefault(prototype.name, prototype)
    return prototypes


def _block(text: str, start: int) -> str:
    """Return the text directly inside the braces opened before `start`, with nested bodies reduced
    to `{`."""
    depth, declarations = 1, []
    for char in text[start:]:
        depth += (char == "{") - (char == "}")
        if depth == 0:
            break
        if depth == 1 or (char == "{" and depth == 2):
            declarations.append(char)
    return "".join(declarations).replace("}", ";")


def _head(text: str, start: int) -> str:
    end = min(
        (i for i in (text.find("{", start), text.find(";", start)) if i >= 0), default=len(text) - 1
    )
    return text[start : end + 1]


def read_arguments(
    returns: str, name: str, arguments: str, more: Mapping[str, str] | None = None
) -> Prototype | None:
    """Parse a prototype; None where a type is unknown. more: additional types passed by value, with
    their letters."""
    kinds = {**_KINDS, **(more or {})}
    kind = _kind(returns, kinds)
    texts = [a for a in (part.strip() for part in arguments.split(",")) if a and a != "void"]
    types = [_kind(_without_name(a, kinds), kinds) for a in texts]
    if kind is None or any(k is None for k in types):
        return None
    return Prototype(name, kind[0], tuple(k for k in types if k is not None))


def _without_name(argument: str, kinds: Mapping[str, str]) -> str:
    words = re.findall(r"\w+", _NOISE.sub(" ", argument))
    if len(words) <= 1 or " ".join(words) in kinds:
        return argument
    return re.sub(r"\b\w+\s*(\[\s*\])?$", lambda m: "*" if m.group(1) else "", argument)


def _kind(text: str, kinds: Mapping[str, str]) -> tuple[str, str] | None:
    plain = " ".join(_NOISE.sub(" ", text).replace("*", " * ").split())
    if "*" in plain:
        return ("p", plain.replace("*", "").strip()) if plain.count("*") == 1 else ("p", "void")
    if plain == "void":
        return ("v", "")
    return (kinds[plain], "") if plain in kinds else None
