"""Text work on task and candidate: names, forms, and the candidate's one import pointed at the
package's copy."""

from __future__ import annotations

import ast
import importlib.util
import keyword
import re
from pathlib import Path

from kevolve_mcp.errors import Unavailable, UsageError

from .manifest import Edit

_OURS = {"harness", "kevolve_mcp", "knowledge"}
_ACCEPTED = (
    "a candidate imports `from harness.native import load_cpp` (or load_cuda) and nothing else of "
    "KEvolve"
)


def identifier(text: str) -> str:
    """`text` as a lower-case Python name: "RMS-Norm 2" becomes "rms_norm_2"."""
    name = re.sub(r"\W+", "_", text.lower(), flags=re.ASCII).strip("_") or "kernel"
    return f"k_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def importable(name: str) -> str:
    """A folder name that Python can import, kept as it is where it already can."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else identifier(name)


def task_form(source: str) -> str:
    """ "module" for a task with class Model, "function" for one with reference(*inputs). Raises
    UsageError."""
    names = {
        node.name
        for node in _parse(source, "task").body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
    if "Model" in names:
        return "module"
    if "reference" in names:
        return "function"
    raise UsageError(
        "the task defines neither class Model nor reference(*inputs)",
        "export the task's own text, as it was opened",
    )


def native_sources() -> dict[str, str]:
    """The texts of harness/native/ by their place in a package, read without importing it. Raises
    Unavailable."""
    spec = importlib.util.find_spec("harness.native")
    if spec is None or spec.origin is None:
        raise Unavailable(
            "harness/native is missing from this installation", "install kevolve-mcp again"
        )
    folder = Path(spec.origin).parent
    return {
        f"{folder.name}/{file.name}": file.read_text(encoding="utf-8")
        for file in sorted(folder.glob("*.py"))
    }


def packaged(source: str) -> tuple[str, tuple[Edit, ...]]:
    """The candidate's text with imports of harness.native made relative, and the edits that undo
    it. Raises UsageError."""
    starts = _line_starts(source)
    rewrites = []
    for node in ast.walk(_parse(source, "candidate")):
        if isinstance(node, ast.Constant) and _names_us(node.value):
            raise UsageError(
                f"line {node.lineno}: the text {node.value!r} names a module that a package does "
                "not bring",
                "import harness.native by an import statement, and submit the kernel again",
            )
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _concerns_us(node):
            begin, end = (_offset(source, starts, line, column) for line, column in _span(node))
            rewrites.append((begin, source[begin:end], _relative(node, source[begin:end])))
    edits, pieces, taken, moved = [], [], 0, 0
    for begin, old, new in sorted(rewrites):
        edits.append(Edit(begin + moved, new, old))
        pieces += [source[taken:begin], new]
        taken, moved = begin + len(old), moved + len(new) - len(old)
    return "".join([*pieces, source[taken:]]), tuple(edits)


def unpackaged(text: str, edits: tuple[Edit, ...]) -> str:
    """The inverse of `packaged`. Raises UsageError when the text is not the one the edits belong
    to."""
    for edit in reversed(edits):
        end = edit.start + len(edit.new)
        if text[edit.start : end] != edit.new:
            raise UsageError("kernel.py does not match the manifest", "export the kernel again")
        text = text[: edit.start] + edit.old + text[end:]
    return text


def _parse(source: str, what: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"the {what} is not valid Python: {error}", "only evaluated text can be exported"
        ) from error


def _names_us(value: object) -> bool:
    """Whether a text is the path of a module of ours, as `importlib.import_module` takes it."""
    parts = value.split(".") if isinstance(value, str) else []
    is_path = len(parts) > 1 or value in ("harness", "kevolve_mcp")
    if not (is_path and parts[0] in _OURS and all(part.isidentifier() for part in parts)):
        return False
    try:
        return importlib.util.find_spec(".".join(parts)) is not None
    except ImportError:  # "harness.cpp.x"
        return False


def _concerns_us(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] in _OURS
    return any(alias.name.split(".")[0] in _OURS for alias in node.names)


def _relative(node: ast.Import | ast.ImportFrom, text: str) -> str:
    if isinstance(node, ast.ImportFrom):
        if node.module == "harness.native":
            return re.sub(r"^from(\s+)harness\s*\.\s*native\b", r"from\1.native", text)
        if node.module == "harness" and [alias.name for alias in node.names] == ["native"]:
            return re.sub(r"^from(\s+)harness\b", r"from\1.", text)
    elif [alias.name for alias in node.names] == ["harness.native"]:
        if name := node.names[0].asname:
            return f"from . import native as {name}"
        return (
            "from . import native as _native; import types as _types; harness = "
            "_types.SimpleNamespace(native=_native)"
        )
    raise UsageError(
        f"line {node.lineno}: `{text}` cannot be exported: {_ACCEPTED}",
        "change the import and submit the kernel again",
    )


def _span(node: ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (
        node.end_lineno or node.lineno,
        node.end_col_offset or 0,
    )


def _line_starts(source: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", source))]


def _offset(source: str, starts: list[int], line: int, column: int) -> int:
    rest = source[starts[line - 1] :]
    return starts[line - 1] + len(rest.encode()[:column].decode())
