"""The errors of KEvolve.

KEvolveError            code, message, hint, actions, retryable: what crosses MCP, the command line
                        and the log
├── UsageError          the caller can fix it: wrong argument, wrong path, unknown id, bad source
│   ├── NotFound        an id that does not exist; the hint lists near ones
│   └── TaskRefused     the task file lacks a part, raises, or cannot be judged honestly
├── Conflict            the state does not allow it now: session finished, ask taken, job running
│   └── BudgetFull      the evaluation budget has no place for one more node
├── Unavailable         the machine lacks something: torch, a compiler, isolation, a target
│   └── EvaluatorUnavailable   the evaluator itself failed; nothing is known about the candidate
└── StoreError          the home folder or database cannot be used
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from .actions import Action, read_actions

LONGEST_WORD, LONGEST_TEXT = 300, 6000  # characters of a message that are shown
# codes of the server's own errors that the caller can fix
ARGUMENT_CODES = frozenset({"bad_arguments", "unknown_tool"})
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def shortened(text: str) -> str:
    """Return a message as it is shown: of a very long argument only the beginning and end."""
    text = _LONG_WORD.sub(lambda found: _cut(found.group(), 80), text)
    return text if len(text) <= LONGEST_TEXT else _cut(text, LONGEST_TEXT // 2)


def innermost(error: BaseException) -> BaseException:
    """Return the first exception inside nested groups, in which task groups wrap exceptions."""
    while isinstance(error, builtins.BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def io_message(error: OSError) -> str:
    """Return the message of an I/O error with the name of its file."""
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def _cut(text: str, each: int) -> str:
    return f"{text[:each]}[{len(text) - 2 * each} more characters]{text[-each:]}"


class KEvolveError(Exception):
    """An error that tells the caller what to do about it."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later."""

    def __init__(self, message: str, hint: str = "", *actions: Action) -> None:
        """Create the error.

        Args:
            message: What was wrong, and what is accepted.
            hint: What to do, in words that name no tool, argument, command or option.
            actions: What to do next.
        """
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.actions = actions

    def as_dict(self) -> dict[str, Any]:
        """Return the form in which errors are stored and cross MCP."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "actions": [action.as_json() for action in self.actions],
            "retryable": self.retryable,
        }

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(KEvolveError):
    code = "usage"


class NotFound(UsageError):
    code = "not_found"


class TaskRefused(UsageError):
    code = "task_refused"


class Conflict(KEvolveError):
    code = "conflict"


class BudgetFull(Conflict):
    code = "budget_full"


class Unavailable(KEvolveError):
    code = "unavailable"


class EvaluatorUnavailable(Unavailable):
    code = "evaluator_unavailable"
    retryable = True


class StoreError(KEvolveError):
    code = "store"


def read_error(data: Mapping[str, Any]) -> KEvolveError:
    """Return the error that `KEvolveError.as_dict` stored, its class found by `code`."""
    code = data.get("code")
    fallback = UsageError if code in ARGUMENT_CODES else KEvolveError
    cls = next((c for c in _classes(KEvolveError) if c.code == code), fallback)
    actions = read_actions(data.get("actions"))
    return cls(str(data.get("message", "")), str(data.get("hint", "")), *actions)


def _classes(cls: type[KEvolveError]) -> Iterator[type[KEvolveError]]:
    yield cls
    for inner in cls.__subclasses__():
        yield from _classes(inner)
