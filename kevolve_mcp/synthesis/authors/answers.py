"""Reading the answer of an author that writes text: a candidate file and the words around it; pure
functions.

Models answer in many forms: one JSON object, a JSON block before a Python block, or prose with a
fenced block. All of them are understood; an unusable answer is refused with a reason that tells the
author how to fix it.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.types import Candidate, CandidateError
from kevolve_mcp.search.node import MOST_PREDICTED

# the name that a file in the language must use
MARKS = {"cpp": "load_cpp", "cuda": "load_cuda", "triton": "triton"}
_FENCE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)\n"
    r"(?P<body>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL)
_SOURCE_KEYS = ("source", "code", "candidate")
_LABELS = {
    "hypothesis": r"hypothesis",
    "predicted_speedup": r"predicted[ _](?:speed-?up|effect)",
    "rationale": r"rationale|reasoning",
}


class InvalidAnswer(ValueError):
    """An unusable answer. The message is shown to the author: what is wrong and what is
    accepted."""


@dataclass(frozen=True)
class Words:
    """The words that accompany a candidate. predicted_speedup: as in Proposal."""

    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""


@dataclass(frozen=True)
class Written:
    """A candidate file worth an evaluation, and its words."""

    source: str
    words: Words


def read_answer(text: str, language: str) -> Written:
    """Return the candidate in a model's text. Raises InvalidAnswer."""
    text = _THINKING.sub("", text).strip()
    if not text:
        raise InvalidAnswer(
            "The answer is empty. Answer with one Python block that holds the whole candidate file."
        )
    data, rest = _json_object(text)
    blocks = [(m["info"].strip().split(" ")[0].lower(), m["body"]) for m in _FENCE.finditer(text)]
    kernel = next(
        (data[k] for k in _SOURCE_KEYS if isinstance(data.get(k), str) and data[k].strip()), None
    )
    source = str(kernel) if kernel is not None else _best_block(blocks, text)
    if source is None:
        raise InvalidAnswer(
            "There is no candidate file in the answer. Put the whole file, from its imports to the "
            "end of class ModelNew, into one block that begins with ```python."
        )
    check_source(source, language)
    return Written(source.strip("\n") + "\n", words({**_labelled(_FENCE.sub("", rest)), **data}))


def words(data: Mapping[str, Any]) -> Words:
    """Return the known fields of a JSON object, without values that cannot be a hypothesis, a
    speed-up or a rationale."""
    return Words(
        _text(data.get("hypothesis")),
        _speedup(data.get("predicted_speedup")),
        _text(data.get("rationale")),
    )


def check_source(source: str, language: str) -> None:
    """Check that a text is worth an evaluation: Python with an entry point, in the language. Raises
    InvalidAnswer."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise InvalidAnswer(
            f"The candidate is not valid Python: line {line}: "
            f"{getattr(error, 'msg', None) or error}. Answer with the whole file."
        ) from None
    defined = {n.name for n in ast.walk(tree) if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    if not defined & {"ModelNew", "kernel"}:
        raise InvalidAnswer(
            "The candidate defines neither class ModelNew(nn.Module) nor kernel(*inputs); define "
            "one with the task's constructor and forward, and answer with the whole file."
        )
    names = _names(tree)
    mark = MARKS.get(language)
    if mark is not None and mark not in names:
        other = next((f", but it uses {m}" for m in MARKS.values() if m in names), "")
        raise InvalidAnswer(
            f"The session's language is {language}: the candidate must use {mark}{other}."
        )
    candidate = Candidate(source, language)
    try:
        candidate.params()
        candidate.tunables()
    except CandidateError as error:
        raise InvalidAnswer(f"The candidate's literals cannot be read: {error}") from None


def _names(tree: ast.Module) -> set[str]:
    """All names that are imported or called."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {
                part
                for alias in node.names
                for part in (*alias.name.split("."), alias.asname or "")
            }
            names |= set((getattr(node, "module", None) or "").split("."))
    return names


def _json_object(text: str) -> tuple[dict[str, Any], str]:
    """The answer's JSON object, {} without one, and the text without it. Only one outside a Python
    block counts."""
    for match in _FENCE.finditer(text):
        if (
            match["info"].strip().lower() in ("json", "")
            and (decoded := _decoded(match["body"].strip())) is not None
        ):
            return decoded, text[: match.start()] + text[match.end() :]
    outside = _FENCE.sub(lambda m: " " * len(m[0]), text)
    for match in re.finditer(r"\{", outside):
        start = match.start()
        try:
            decoded, end = json.JSONDecoder(strict=False).raw_decode(text, start)
        except ValueError:
            continue
        if isinstance(decoded, dict) and ({*_LABELS, *_SOURCE_KEYS} & decoded.keys()):
            return decoded, text[:start] + text[end:]
    return {}, text


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        # models leave unescaped line breaks in strings
        data = json.JSONDecoder(strict=False).decode(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _best_block(blocks: list[tuple[str, str]], text: str) -> str | None:
    """The block that looks most like a candidate file; without blocks the whole text, if it is
    one."""
    python = [body for info, body in blocks if info in ("python", "py", "python3", "")]
    whole = [
        body
        for body in python
        if "ModelNew" in body or re.search(r"^def kernel\b", body, re.MULTILINE)
    ]
    if whole:
        return max(whole, key=len)
    if python and any(info.startswith("py") for info, _ in blocks):
        return max(python, key=len)
    return (
        text
        if not blocks and re.search(r"^(class ModelNew|def kernel)\b", text, re.MULTILINE)
        else None
    )


def _labelled(prose: str) -> dict[str, str]:
    """ "**Hypothesis:** fewer passes" at the beginning of a line."""
    fields = {}
    for name, pattern in _LABELS.items():
        match = re.search(
            rf"^[\s*#_\-]*(?:{pattern})[*_]*\s*[:=][*_]*\s*(.+)$",
            prose,
            re.MULTILINE | re.IGNORECASE,
        )
        if match:
            fields[name] = match[1].strip().strip("*_`")
    return fields


def _text(value: object) -> str:
    return value.strip()[:4000] if isinstance(value, str) else ""


def _speedup(value: object) -> float | None:
    """A factor from 1.2, "1.2", "1.2x" or "about 1.2×"; None for anything else, or too large for a
    forecast."""
    if isinstance(value, str):
        match = re.search(r"\d+(?:\.\d+)?", value)
        value = float(match[0]) if match and "%" not in value else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 < value <= MOST_PREDICTED else None
