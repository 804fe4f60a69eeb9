"""The errors of the knowledge package.

KnowledgeError          message, hint: what was wrong and what to do next
├── PageError           a file cannot be taken as a page: front matter, heading, category, links;
│                       names file and field
├── PageNotFound        no page has this id; the hint lists near ones
├── QueryError          a search or read argument is out of range
└── DocumentError       a folder of documents cannot be registered, or its registration not be read
"""

from __future__ import annotations

from typing import Any, ClassVar


class KnowledgeError(Exception):
    """Base. `hint` says what to do next; no call becomes right by repetition, so `retryable` is
    always False."""

    code: ClassVar[str] = "knowledge"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_dict(self) -> dict[str, Any]:
        """The form in which errors cross MCP and `--json`."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class PageError(KnowledgeError):
    code = "bad_page"


class PageNotFound(KnowledgeError):
    code = "not_found"


class QueryError(KnowledgeError):
    code = "usage"


class DocumentError(KnowledgeError):
    code = "usage"
