"""The folder in which a command answers an ask: the context as files, and the files to write."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kevolve_mcp.errors import UsageError
from kevolve_mcp.synthesis.ask import AskContext
from kevolve_mcp.synthesis.templates import template_candidate

from .answers import MARKS

CANDIDATE = "candidate.py"
ANSWER = "answer.json"

_README = """\
# Write one faster kernel

KEvolve searches for a faster implementation of the task in `task.py` and asks for its next
candidate. Read `ask.md` first.

| file | what it is |
| --- | --- |
| `ask.md` | the request: goal, machine, parents with their diagnosis, what was tried, what is known, the rules of the format |
| `task.py` | the reference whose results the kernel must match |
{files}
## Write

* `{candidate}`: the whole candidate file, with class ModelNew (or `def kernel`), in the language
  {language}{mark}.
* `{answer}`, optional:
  `{{"hypothesis": "the one change and why it is faster", "predicted_speedup": 1.2, "rationale": "…"}}`;
  `"tokens"` and `"usd"` may state the cost of writing it.

When the command ends, or after {seconds:.0f} seconds, these files are submitted as the answer to
{ask} of session {session}. Do not make the tool calls that `ask.md` mentions.
"""  # noqa: E501


def fill(folder: Path, ask: AskContext, limit_s: float, guide: str = "") -> None:
    """Write the files of the ask into the empty folder.

    Args:
        guide: Added to its README: how to try a candidate. May contain {language}, {target} and
            {session}.
    """
    listed = []
    (folder / "ask.md").write_text(ask.text, encoding="utf-8")
    (folder / "task.py").write_text(ask.task.source, encoding="utf-8")
    for view in (*ask.parents, *((ask.best,) if ask.best else ())):
        (folder / "parents").mkdir(exist_ok=True)
        name = f"parents/{view.id}.py"
        if not (folder / name).exists():
            (folder / name).write_text(view.source, encoding="utf-8")
            figure = f", F = {view.fitness:.3f}" if view.fitness is not None else ""
            what = "a parent" if view in ask.parents else "the best so far"
            listed.append(f"| `{name}` | {what}: {view.status}{figure} |")
    try:
        template = template_candidate(ask.task.as_task(), ask.language).source
    except UsageError:  # a language without one
        template = ""
    if template:
        (folder / "template.py").write_text(template, encoding="utf-8")
        listed.append(
            "| `template.py` | a candidate file to fill in: of the right form, but it computes "
            "nothing yet |"
        )
    mark = f" (it uses `{MARKS[ask.language]}`)" if ask.language in MARKS else ""
    text = (_README + (f"\n{guide}" if guide else "")).format(
        files="".join(f"{line}\n" for line in listed),
        candidate=CANDIDATE,
        answer=ANSWER,
        language=ask.language,
        target=ask.target,
        mark=mark,
        seconds=limit_s,
        ask=ask.id,
        session=ask.session,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def programs(folder: Path, kevolve: Sequence[str]) -> None:
    """Create a folder for the PATH with `kevolve`. kevolve: the command that starts this
    installation's, () for none."""
    folder.mkdir()
    if not kevolve:
        return
    script = folder / "kevolve"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(kevolve)} "$@"\n')
    script.chmod(0o755)


def read_back(folder: Path) -> tuple[str, dict[str, Any], str]:
    """Return the candidate ("" where none was written), the answer's fields, and what is wrong with
    the answer."""
    source = _text(folder / CANDIDATE)
    text = _text(folder / ANSWER)
    if not text.strip():
        return source, {}, ""
    try:
        data = json.loads(text)
    except ValueError as error:
        return source, {}, f"{ANSWER} is not valid JSON: {error}"
    return (
        (source, data, "")
        if isinstance(data, dict)
        else (source, {}, f"{ANSWER} is not a JSON object")
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:1_000_000]
    except OSError:
        return ""
