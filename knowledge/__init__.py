"""Knowledge about fast kernels: Markdown pages and skills, and the code that finds the right one.

Pages are in four folders (constraints, guidance, hardware, skills); index.md lists them.
`Library.builtin()` loads them, `search` finds pages by signals, target, language and words, `read`
returns a page or a part of it. To this package a signal is a string; of the rest of the program it
only imports errors, actions and `lazy`. A user's own documents, and the counts of unanswered
questions, are loaded where they are used, since most homes have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

from .errors import DocumentError, KnowledgeError, PageError, PageNotFound, QueryError
from .library import Library, Reading, Results, read_folder
from .messages import signals_of
from .page import Page, Skill, parse_page, parse_skill
from .search import Hit
from .vectors import MakeNearness, Near, Nearness, Neighbours, Passage

if TYPE_CHECKING:
    from .documents import Documents
    from .gaps import Gap, Gaps

__all__ = [
    "DocumentError",
    "Documents",
    "Gap",
    "Gaps",
    "Hit",
    "KnowledgeError",
    "Library",
    "MakeNearness",
    "Near",
    "Nearness",
    "Neighbours",
    "Page",
    "PageError",
    "PageNotFound",
    "Passage",
    "QueryError",
    "Reading",
    "Results",
    "Skill",
    "parse_page",
    "parse_skill",
    "read_folder",
    "signals_of",
]

__getattr__ = loader(__name__, {"documents": ("Documents",), "gaps": ("Gap", "Gaps")})
