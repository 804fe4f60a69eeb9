"""Actions rendered as tool calls."""

from __future__ import annotations

from collections.abc import Callable

from kevolve_mcp.actions import Action, Setting, Verb

_NAMES = {
    "session": "session_id",
    "node": "node_id",
    "other": "diff_base",
    "evaluation": "evaluation_id",
    "ask": "ask_id",
    "job": "job_id",
    "page": "page_id",
}
WAIT_S = 45  # seconds suggested for the next wait: within the time that clients allow a call


def call(action: Action) -> str:
    """Return the tool call that does the action, "" where no tool does."""
    return _CALLS[action.verb](action)


def _spell(tool: str, action: Action, *names: str, more: str = "") -> str:
    """The call with those of the named fields that the action sets. more: arguments as text."""
    arguments = [
        f"{_NAMES.get(name, name)}={value!r}" for name in names if (value := getattr(action, name))
    ]
    return f"{tool}({', '.join([*arguments, more] if more else arguments)})"


def _kernel(tool: str) -> Callable[[Action], str]:
    return lambda action: _spell(tool, action, "session", "target", "language", more="...")


def _in_session(tool: str, *names: str, more: str = "") -> Callable[[Action], str]:
    def spelled(action: Action) -> str:
        missing = "" if action.session else "session_id=..."
        also = ", ".join(filter(None, (missing, more)))
        return _spell(tool, action, "session", *names, more=also)

    return spelled


def _view(action: Action) -> str:
    names = ("session", "node", "other", "evaluation", "section", "cursor")
    missing = "" if action.session or action.evaluation else "session_id=..."
    return _spell("tree_view", action, *names, more=missing)


def _read(action: Action) -> str:
    offset = f"offset={action.cursor}" if action.cursor else ""
    return _spell("knowledge_read", action, "page", more=offset if action.page else "page_id=...")


def _by_a_person(action: Action) -> str:
    return f"a person reviews it and runs: kevolve approve {action.session} {action.node}"


def _open(action: Action) -> str:
    return f"session_open(task_path=...{f', target={action.target!r}' if action.target else ''})"


_SETTINGS: dict[Setting, str] = {
    "": "",
    "task": "task_path (absolute) or task_source (the text)",
    "kernel": "path (absolute) or source (the text)",
    "start": "start_path (absolute) or start_source (the text)",
    "interpreter": "python={value}",
    "isolation": 'policy={{"isolation": "{value}"}}',
    # settings of authors and of a person's documents: no tool takes them
    "author": "",
    "base_url": "",
    "prices": "",
    "tokens": "",
    "limits": "",
    "name": "",
    "vendor": "",
    "arch": "",
}


def _nothing(action: Action) -> str:
    return ""


_CALLS: dict[Verb, Callable[[Action], str]] = {
    "describe_targets": lambda action: _spell("target_describe", action, "target"),
    "open_session": _open,
    "open_another": lambda _: "session_open(..., new=true)",
    "next_ask": _in_session("session_next", "ask"),
    "compile": _kernel("kernel_compile"),
    "check": _kernel("kernel_check"),
    "profile": _kernel("kernel_profile"),
    "submit": _in_session(
        "kernel_submit", "ask", more="path=..., hypothesis=..., predicted_speedup=..."
    ),
    "submit_start": _in_session("kernel_submit", "ask"),
    "finish": _in_session("session_finish", "node"),
    "discard": _in_session("session_finish", more="discard=true"),
    "approve": _by_a_person,
    "view": _view,
    "view_sessions": lambda action: _spell("tree_view", action, "cursor"),
    "write_template": _in_session("tree_view", more='section="template"'),
    "search_knowledge": lambda action: _spell(
        "knowledge_search", action, "target", "cursor", more="..."
    ),
    "read_page": _read,
    # only a person changes the documents and skills of a home
    "add_documents": _nothing,
    "remove_documents": _nothing,
    "list_skills": _nothing,
    "export_skill": _nothing,
    "record_skill": _in_session("skill_record", "node", more="..."),
    "wait": lambda action: _spell("job_wait", action, "job", "session", more=f"wait_s={WAIT_S}"),
    "list_jobs": lambda _: "job_wait()",
    "cancel": lambda action: _spell("job_cancel", action, "job", "session"),
    "give": lambda action: _SETTINGS[action.setting].format(value=action.value or "..."),
}
