"""What to do next, as a value.

Code that answers or refuses knows what may be done next, but not how the caller does it: with a
tool of the server, a command or an option. It names an Action; the server (`server/calls.py`) and
the command line (`cli/calls.py`) each render it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Verb = Literal[
    "describe_targets",
    "open_session",
    "open_another",
    "next_ask",
    "compile",
    "check",
    "profile",
    "submit",
    "submit_start",
    "finish",
    "discard",
    "approve",
    "view",
    "view_sessions",
    "write_template",
    "search_knowledge",
    "read_page",
    "add_documents",
    "remove_documents",
    "list_skills",
    "export_skill",
    "record_skill",
    "wait",
    "list_jobs",
    "cancel",
    "give",
]
Setting = Literal[
    "",
    "task",
    "kernel",
    "start",
    "interpreter",
    "isolation",
    "author",
    "base_url",
    "prices",
    "tokens",
    "limits",
    "name",
    "vendor",
    "arch",
]


@dataclass(frozen=True)
class Action:
    """One step that may be taken next; the caller fills in fields that are left out."""

    verb: Verb
    """What to do; "give" sets `setting` in the current call."""
    purpose: str = ""
    """Its purpose, phrased to follow the call in a sentence: "lists the nodes"."""
    session: str = ""
    node: str = ""
    other: str = ""
    """Another node, to compare with."""
    evaluation: str = ""
    ask: str = ""
    job: str = ""
    section: str = ""
    """The section of a node, an evaluation or a session."""
    page: str = ""
    target: str = ""
    language: str = ""
    name: str = ""
    """The name of a skill or of registered documents."""
    setting: Setting = ""
    value: str = ""
    """An example value for `setting`."""
    cursor: int = 0
    """Where to continue a text that is read in parts."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value}


Say = Callable[[Action], str]
"""Renders an action as a call of one surface."""


def plainly(action: Action) -> str:
    """Return the action in words that name no surface: "view (session s-1, node n3)"."""
    values = {k: v for k, v in action.as_json().items() if k not in ("verb", "purpose")}
    known = ", ".join(f"{name} {value}" for name, value in values.items())
    return action.verb.replace("_", " ") + (f" ({known})" if known else "")


def read_actions(data: object) -> tuple[Action, ...]:
    """Return the actions among `data`, a list from JSON.

    Unknown actions are left out, since the other side may be newer.
    """
    actions = []
    for each in data if isinstance(data, list | tuple) else ():
        if isinstance(each, Mapping) and each.get("verb") in get_args(Verb):
            known = {
                name: each[name]
                for name in _FIELDS
                if isinstance(each.get(name), int if name == "cursor" else str)
            }
            if known.get("setting", "") in get_args(Setting):
                actions.append(Action(**known))
    return tuple(actions)


def sentences(actions: Iterable[Action], say: Say) -> str:
    """Return the actions as one text, "" where the surface has none of them."""
    named = ((say(action), action.purpose) for action in actions)
    return "; ".join(f"{call} {purpose}".rstrip() for call, purpose in named if call)


_FIELDS = tuple(field.name for field in fields(Action))
