"""Reads the `__global__` functions of a CUDA source from its text: their names and arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .prototypes import COMMENT, EXTERN, POINTED, Prototype, read_arguments

_BY_VALUE = {"__half": "h", "half": "h"}
CUDA_POINTED = {
    **POINTED, "__half": ("float16",), "half": ("float16",), "__half2": ("float16",),
    "half2": ("float16",), "__nv_bfloat16": ("bfloat16",), "nv_bfloat16": ("bfloat16",),
    "__nv_bfloat162": ("bfloat16",), "nv_bfloat162": ("bfloat16",),
    "__nv_fp8_e4m3": ("float8_e4m3fn",), "__nv_fp8_e5m2": ("float8_e5m2",), "float2": ("float32",),
    "float4": ("float32",), "double2": ("float64",), "unsigned": ("int32", "uint32"),
    "unsigned int": ("int32", "uint32"),
}  # fmt: skip
_PARENTHESES = r"\((?:[^()]|\([^()]*\))*\)"
_KERNEL = re.compile(
    rf"\b__global__\b((?:\s|\b(?:void|static|inline|__forceinline__)\b|"
    rf"__\w+__\s*{_PARENTHESES})*)\b(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*[{{;]"
)
_TEMPLATE = re.compile(r"\btemplate\s*<([^;{}]*)>[^<>]*$")
_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")


@dataclass(frozen=True)
class KernelText:
    """One `__global__` function. name: with its namespaces. plain: it is `extern "C"`, so its
    symbol is its name. parameters: names of a template's parameters, None for a function.
    arguments: their text."""

    name: str
    plain: bool
    parameters: tuple[str, ...] | None
    arguments: str

    def prototype(self, values: tuple[str, ...] = ()) -> Prototype | None:
        """Return the prototype with template arguments filled in; None where a type is unknown."""
        text = self.arguments
        for parameter, value in zip(self.parameters or (), values, strict=False):
            text = re.sub(rf"\b{parameter}\b", value, text)
        return read_arguments("void", self.name, text, _BY_VALUE)


def read_kernels(source: str) -> dict[str, KernelText]:
    """Return the kernels declared in the text, by name; those written by a macro are not found."""
    text = COMMENT.sub(" ", source)
    linked = [(m.end(), _closing(text, m.end())) for m in EXTERN.finditer(text) if m.group(1)]
    spaces = [(m.group(1), m.end(), _closing(text, m.end())) for m in _NAMESPACE.finditer(text)]
    kernels: dict[str, KernelText] = {}
    for match in _KERNEL.finditer(text):
        at = match.start()
        before = text[max(text.rfind(mark, 0, at) for mark in ";{}") + 1 : at] + match.group(1)
        template = _TEMPLATE.search(before)
        plain = bool(re.search(r'\bextern\s+"C"', before)) or any(
            start <= at < end for start, end in linked
        )
        name = "::".join(
            [*(word for word, start, end in spaces if start <= at < end), match.group(2)]
        )
        parameters = _parameters(template.group(1)) if template else None
        kernels.setdefault(name, KernelText(name, plain, parameters, match.group(3)))
    return kernels


def split_instance(name: str) -> tuple[str, tuple[str, ...]]:
    """Split a name: "ns::scale<float, 4>" -> ("ns::scale", ("float", "4"))."""
    base, mark, arguments = name.partition("<")
    return base.strip(), tuple(_split(arguments.rpartition(">")[0])) if mark else ()


def _parameters(text: str) -> tuple[str, ...]:
    """Return the names of template parameters: the last word of each, before its default."""
    return tuple(
        words[-1] if (words := re.findall(r"\w+", part.partition("=")[0])) else ""
        for part in _split(text)
    )


def _split(text: str) -> list[str]:
    """Split a text at commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _closing(text: str, start: int) -> int:
    """Return the index of the brace that closes the one opened before `start`."""
    depth = 1
    for index in range(start, len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return index
    return len(text)
