"""The errors of the knowledge package.

KnowledgeError          a UsageError: what was wrong and what to do next
├── PageError           a file is not a valid page: front matter, heading, category, links; names
│                       file and field
├── PageNotFound        no page has this id; the hint lists near ones
├── QueryError          a search or read argument is out of range
└── DocumentError       a folder of documents cannot be registered, or its registration not read
"""

from __future__ import annotations

from typing import ClassVar

from kevolve_mcp.errors import UsageError


class KnowledgeError(UsageError):
    """Base: the caller can fix it."""

    code: ClassVar[str] = "knowledge"


class PageError(KnowledgeError):
    code = "bad_page"


class PageNotFound(KnowledgeError):
    code = "not_found"


class QueryError(KnowledgeError):
    code = "usage"


class DocumentError(KnowledgeError):
    code = "usage"
