"""Triton: kernels in Python, compiled at their first launch, or verified without a device by
Triton's interpreter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from ..types import Signal, Target
from .base import UNREADABLE, parse_entry
from .device import DeviceLanguage

# message of Triton 3.6 to 3.9, its compiler passes or ptxas -> signal. The first match wins.
_MESSAGES = (
    (r"out of resource|bad_alloc|MemoryError|exceeds triton maximum|uses too much "
     r"(?:shared|global) (?:data|memory)|too many resources|"
     r"shared memory .*exceed|Register allocation failed|maximum tensor numel|ran out of registers",
     "compile_error.resource_limit"),
    (r"incompatible dimensions|make_shape_compatible|[Cc]annot broadcast|broadcast "
     r".*(?:shape|rank)|shapes? .*(?:mismatch|must match|do(?:es)? not match|"
     r"must be equal)|(?:[Ss]hape|range) .*(?:must be|should be) a? ?power of (?:2|two)|power of "
     r"(?:2|two)|Input shapes should have|"
     r"[Bb]oth inputs must be|first input shape|reduction dim|[Rr]ank mismatch|same (?:number of "
     r"elements|shape)|reshape\(\) cannot",
     "compile_error.shape_mismatch"),
    (r"is not defined|has no attribute|not found in|NameError|unresolved "
     r"(?:symbol|external)|Unresolved extern", "compile_error.undeclared_name"),
    (r"not supported (?:on|in|by|for) (?:this|the|your)|only supported on|requires? (?:sm_|compute "
     r"capability|\.target)|architecture|"
     r"not support(?:ed)?\b.*(?:arch|target|sm_|gfx)|fp8\w* not supported|Cannot "
     r"select|unsupported (?:target|feature|conversion)|"
     r"[Uu]nsupported .*(?:intrinsic|instruction)", "compile_error.unsupported_instruction"),
    (r"[Uu]nsupported ptr type|invalid operands? of type|same dtype|expected "
     r".*(?:type|dtype)|[Cc]annot (?:bitcast|cast|convert)|incompatible types|"
     r"[Tt]ype mismatch|initial type|has type .* but|dtype|TypeError",
     "compile_error.type_mismatch"),
    (r"[Uu]nsupported AST|UnsupportedLanguageConstruct|[Uu]nsupported "
     r"(?:language|statement|syntax)|not allowed in|SyntaxError|invalid syntax",
     "compile_error.syntax"),
)  # fmt: skip
_PLACE = re.compile(
    r"^(?:CompilationError: |CompileTimeAssertionFailure: |UnsupportedLanguageConstruct: )?at "
    r"(\d{1,9}):(\d+):",
    re.MULTILINE,
)
_DIAGNOSTIC = re.compile(r"^.*?(?:error|ERROR)\s*: (.*)$", re.MULTILINE)
_QUOTED = re.compile(r"^(?:InterpreterError: )?(\w+(?:Error|Exception))\((['\"])(.*)\2,?\)$")
_NARROW = re.compile(r"^(?:bfloat16|float8\w*|bf16|fp8\w*)$")
_MISSING = ("libdevice", "inline_asm_elementwise")


class Triton(DeviceLanguage):
    """The `triton` language. Its compiler runs inside the candidate's own worker, at the first
    launch of each specialization."""

    name = "triton"
    targets = ("cpu", "cuda", "hip")
    interpreted_on = ("cpu",)

    def police(self, source: str) -> Signal | None:
        return parse_entry(source)

    def unfit(self, source: str, target: Target, dtypes: Iterable[str]) -> str:
        """On a CPU, name what the interpreter would compute wrongly without an error, or does not
        support."""
        if target.family != "cpu":
            return ""
        tensors = sorted({d for d in dtypes if _NARROW.match(d)})
        if tensors:
            return (
                f"the task has {' and '.join(tensors)} tensors, which Triton's interpreter "
                "computes wrongly without an error"
            )
        narrow, names = _words(source)
        if narrow:
            return (
                f"the kernel uses {', '.join(sorted(narrow))}, which Triton's interpreter computes "
                "wrongly without an error"
            )
        if missing := [w for w in _MISSING if w in names]:
            return (
                f"the kernel uses {' and '.join(missing)}, which Triton's interpreter does not have"
            )
        return ""

    def read_log(self, log: str) -> tuple[Signal, ...]:
        text = _QUOTED.sub(r"\1: \3", _essence(log))
        name = next(
            (signal for pattern, signal in _MESSAGES if re.search(pattern, text)), "compile_error"
        )
        place = _PLACE.search(log)
        where = f"kernel line {place.group(1)}: " if place else ""
        evidence = {"line": float(place.group(1))} if place else {}
        return (Signal(name, f"{where}{text}"[:600], evidence),)


def _essence(log: str) -> str:
    """Return the line that states the error: what follows the excerpt of the kernel's text, else a
    compiler pass's diagnostic."""
    lines = [line.strip() for line in log.strip().splitlines() if line.strip()]
    if not lines:
        return "the compiler failed without a message"
    places = list(_PLACE.finditer(log))
    for place in reversed(places):  # the innermost function has the reason
        after = log[place.end() :].splitlines()
        caret = max((i for i, line in enumerate(after) if line.strip() == "^"), default=None)
        errors = (
            [line.strip() for line in after[caret + 1 :] if line.strip()]
            if caret is not None
            else []
        )
        if errors and not errors[0].startswith(("File", "candidate.py")):
            return errors[0]
    diagnostics = [str(f).strip() for f in _DIAGNOSTIC.findall(log)]
    if any(diagnostics):
        return next(f for f in diagnostics if f)
    named = [
        line for line in lines if re.match(r"^\w*(?:Error|Resources|Construct|Failure)\b", line)
    ]
    return named[0] if named else lines[0]


def _last_name(node: ast.expr) -> str:
    """Return the last name of a chain of attributes, "" for another expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _words(source: str) -> tuple[set[str], set[str]]:
    """Return (narrow types of Triton, all names and attributes) in the code. Comments, docstrings
    and torch's types in host code do not count."""
    try:
        tree = ast.parse(source)
    except UNREADABLE:
        return set(), set()
    narrow: set[str] = set()
    names: set[str] = set()
    languages: set[str] = set()
    attributes: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
            if _NARROW.match(node.attr):
                attributes.append((_last_name(node.value), node.attr))
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                names |= set(alias.name.split("."))
                if f"{module}.{alias.name}".strip(".") == "triton.language":
                    languages.add(alias.asname or alias.name)
                elif module == "triton.language" and _NARROW.match(alias.name):
                    narrow.add(alias.name)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _NARROW.match(node.value)
        ):
            narrow.add(repr(node.value))
    narrow |= {
        f"{owner}.{name}" for owner, name in attributes if owner in languages or owner == "language"
    }
    return narrow, names
