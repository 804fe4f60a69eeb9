"""What to do next, as a value.

Whoever refuses something, or answers, knows what may be done now, and does not know how the caller
does it: a tool of the server, a command, an option. It names an Action; the tools
(`server/calls.py`) and the command line (`cli/calls.py`) have one renderer each.
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
    """One thing that may be done next.

    What is left out is for the caller to fill in.
    """

    verb: Verb
    """What to do; "give" sets `setting` in the call that is being made."""
    purpose: str = ""
    """What it is good for, as a reader's sentence goes on after the call: "lists the nodes"."""
    session: str = ""
    node: str = ""
    other: str = ""
    """Another node, to compare with."""
    evaluation: str = ""
    ask: str = ""
    job: str = ""
    section: str = ""
    """Of a node, an evaluation or a session."""
    page: str = ""
    target: str = ""
    language: str = ""
    name: str = ""
    """Of a skill or of registered documents."""
    setting: Setting = ""
    value: str = ""
    """An example for `setting`."""
    cursor: int = 0
    """Where a text goes on that is read in pieces."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields that say something."""
        return {name: value for name, value in asdict(self).items() if value}


Say = Callable[[Action], str]
"""How a surface names a call."""


def plainly(action: Action) -> str:
    """Return the action in words of no surface: "view (session s-1, node n3)"."""
    values = {k: v for k, v in action.as_json().items() if k not in ("verb", "purpose")}
    known = ", ".join(f"{name} {value}" for name, value in values.items())
    return action.verb.replace("_", " ") + (f" ({known})" if known else "")


def read_actions(data: object) -> tuple[Action, ...]:
    """Return the actions among `data`, a list from JSON.

    What this version does not know is left out: the other side may be newer.
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
    """Return what may be done, one after the other; "" where a surface has none of it."""
    named = ((say(action), action.purpose) for action in actions)
    return "; ".join(f"{call} {purpose}".rstrip() for call, purpose in named if call)


_FIELDS = tuple(field.name for field in fields(Action))
