"""Actions rendered as commands and options."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from kevolve_mcp.actions import Action, Setting, Verb, sentences
from kevolve_mcp.errors import KEvolveError


def command(action: Action) -> str:
    """Return the command or option that does the action, "" where there is none."""
    return _COMMANDS[action.verb](action)


def _command(*words: str) -> str:
    """Quoted for a shell; words in capitals stand for what the caller fills in."""
    return f"`kevolve {' '.join(shlex.quote(word) for word in words if word)}`"


def _option(name: str, value: str) -> tuple[str, str]:
    return (name, value) if value else ("", "")


def _compile(action: Action) -> str:
    where = ("CANDIDATE", "--session", action.session) if action.session else ("TASK", "CANDIDATE")
    return _command("compile", *where, *_option("--target", action.target))


def _evaluate(action: Action) -> str:
    return _command("evaluate", "TASK", "CANDIDATE", *_option("--target", action.target))


def _resume(action: Action) -> str:
    return _command("optimize", "--resume", action.session or "SESSION")


def _view(action: Action) -> str:
    section = _option("--section", action.section)
    if action.evaluation:
        return _command("show", action.session, action.evaluation, *section)
    session = action.session or "SESSION"
    if action.node and action.other:
        return _command("diff", session, action.node, action.other)
    return _command("show", session, action.node, *section) if action.node else _tree(session)


def _tree(session: str) -> str:
    return _command("tree", session)


_SETTINGS: dict[Setting, str] = {
    "": "",
    # positional arguments
    "task": "",
    "kernel": "",
    "start": "`--start FILE`",
    "interpreter": "`--python {value}`",
    # sessions of the command line use the isolation that the machine offers
    "isolation": "",
    "author": "`--author {value}`",
    "base_url": "`--base-url {value}`",
    "prices": "`--price-in` and `--price-out`",
    "tokens": "`--tokens`",
    "limits": "`--evaluations` and `--minutes`",
    "name": "`--name {value}`",
    "vendor": "`--vendor {value}`",
    "arch": "`--arch {value}`",
}
_PLACES: dict[Setting, str] = {"interpreter": "PYTHON", "base_url": "URL"}


def _give(action: Action) -> str:
    value = shlex.quote(action.value) if action.value else ""
    place = _PLACES.get(action.setting, action.setting.upper())
    return _SETTINGS[action.setting].format(value=value or place)


def _nothing(action: Action) -> str:
    return ""


_COMMANDS: dict[Verb, Callable[[Action], str]] = {
    "describe_targets": lambda _: _command("doctor"),
    "open_session": lambda a: _command("optimize", "TASK", *_option("--target", a.target)),
    "open_another": lambda _: _command("optimize", "TASK", "--new"),
    "next_ask": _resume,
    "compile": _compile,
    "check": _evaluate,
    "profile": _evaluate,
    "submit": _resume,
    "submit_start": _resume,
    "finish": lambda a: _command("export", a.session or "SESSION", a.node),
    # the command line keeps what it measured
    "discard": _nothing,
    "approve": lambda a: _command("approve", a.session or "SESSION", a.node or "NODE"),
    "view": _view,
    "view_sessions": lambda _: _command("sessions"),
    "write_template": lambda _: _command("template", "TASK"),
    "search_knowledge": lambda a: _command(
        "knowledge", "search", "WORDS", *_option("--target", a.target)
    ),
    "read_page": lambda a: _command("knowledge", "read", a.page or "PAGE"),
    "add_documents": lambda a: _command("knowledge", "add", "DIR", *_option("--name", a.name)),
    "remove_documents": lambda a: _command("knowledge", "remove", a.name or "NAME"),
    "list_skills": lambda _: _command("skills", "list"),
    "export_skill": lambda a: _command("skills", "export", a.name or "NAME"),
    # only the author of the kernel can describe a skill
    "record_skill": _nothing,
    "wait": lambda _: "run it again in a moment",
    # jobs live as long as the command that started them
    "list_jobs": _nothing,
    "cancel": _nothing,
    "give": _give,
}


def advice(error: KEvolveError) -> str:
    """Return what to do about an error, in one line."""
    following = sentences(error.actions, command)
    return " ".join(filter(None, (error.hint, f"{following}." if following else "")))
