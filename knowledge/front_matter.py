"""Front matter: the YAML block between two `---` lines at the top of a page, read with errors that
name file and field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from .errors import PageError

MAX_SIZE = 32_768  # characters of the block
MAX_DEPTH = 8  # of lists and mappings inside each other
# Ten times as fast, if PyYAML was built with its C library.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
EXAMPLE = (
    "---\ntitle: Loop unrolling\ncategory: guidance\nsummary: One sentence.\n---\n# Loop unrolling"
)


def split(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Return the fields of the front matter and the body after it. where: names the file in errors.
    Raises PageError."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        raise PageError(
            f"{where}: line 1 must be '---', the start of the front matter.",
            f"A page begins like this:\n{EXAMPLE}",
        )
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        raise PageError(
            f"{where}: the front matter has no closing '---' line.",
            f"A page begins like this:\n{EXAMPLE}",
        )
    block = "\n".join(lines[1:end])
    try:
        _refuse_bombs(block, where)
        fields = yaml.load(block, LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 2}" if mark else "front matter"
        problem = getattr(error, "problem", None) or str(error)
        raise PageError(
            f"{where}: {line}: not valid YAML: {problem}.",
            "Quote a value that contains ': ' or begins with a special character.",
        ) from error
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise PageError(
            f"{where}: the front matter must be 'name: value' lines.",
            f"A page begins like this:\n{EXAMPLE}",
        )
    return fields, "\n".join(lines[end + 1 :]).strip("\n") + "\n"


def _refuse_bombs(block: str, where: str) -> None:
    """Refuse blocks whose values are huge, or too deeply nested. Raises PageError and YAMLError."""
    depth, hint = 0, "Use only names, texts and short lists in front matter."
    if len(block) > MAX_SIZE:
        raise PageError(
            f"{where}: the front matter has {len(block)} characters; at most {MAX_SIZE} are "
            "accepted.",
            hint,
        )
    for event in yaml.parse(block, LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise PageError(
                f"{where}: the front matter repeats a value by its anchor (*{event.anchor}).",
                "Write the value out.",
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MAX_DEPTH:
            raise PageError(
                f"{where}: the front matter is more than {MAX_DEPTH} levels deep.", hint
            )


def check_names(fields: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Check the names of fields. Raises PageError for the first unknown one, suggesting the nearest
    known one."""
    accepted = sorted(known)
    for name in fields:
        if name not in accepted:
            near = difflib.get_close_matches(name, accepted, 1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            raise PageError(
                f"{where}: unknown field {name!r}.", f"{guess}Accepted: {', '.join(accepted)}."
            )


def one_line(fields: Mapping[str, Any], name: str, where: str, *, required: bool = False) -> str:
    """Return a text field of one line, '' where it is absent and not required. Raises PageError."""
    value = fields.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        found = "is missing" if value is None else f"must be one line of text, not {value!r:.60}"
        raise PageError(
            f"{where}: field {name!r} {found}.",
            f"Write it as '{name}: some words', quoted if it contains ': '.",
        )
    return value.strip()


def words(fields: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    """Return a list of texts; a single text counts as a list of one. Raises PageError."""
    value = fields.get(name)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(
        isinstance(item, str) and item.strip() for item in items
    ):
        raise PageError(
            f"{where}: field {name!r} must be a list of words, not {value!r:.60}.",
            f"Write it as '{name}: [one, two]'.",
        )
    return tuple(item.strip() for item in items)


def choices(
    fields: Mapping[str, Any], name: str, accepted: Iterable[str], where: str
) -> tuple[str, ...]:
    """Return a list of words of a closed set. Raises PageError."""
    found = words(fields, name, where)
    for word in found:
        if word not in accepted:
            raise PageError(
                f"{where}: field {name!r}: {word!r:.60} is not known.",
                f"Accepted: {', '.join(sorted(accepted))}.",
            )
    return found


def choice(fields: Mapping[str, Any], name: str, accepted: Iterable[str], where: str) -> str:
    """Return one word of a closed set, "" where it is absent. Raises PageError."""
    value = one_line(fields, name, where)
    if value and value not in accepted:
        raise PageError(
            f"{where}: field {name!r}: {value!r:.60} is not known.",
            f"Accepted: {', '.join(word for word in accepted if word)}.",
        )
    return value


def mapping(fields: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return a free mapping with text keys, {} where it is absent. Raises PageError."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise PageError(
            f"{where}: field {name!r} must be a mapping, not {value!r:.60}.",
            f"Write it as '{name}: {{key: value}}'.",
        )
    return dict(value)
