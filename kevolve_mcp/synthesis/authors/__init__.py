"""Authors: those who answer asks. `make_author` gives one by name; third parties register under "kevolve.authors"."""

from kevolve_mcp.synthesis.ask import AskContext, CaseFacts, HistoryRow, ParentView, StartView, TaskFacts

from .base import Author, Exhausted, Proposal
from .offline import OfflineAuthor
from .registry import GROUP, author_names, make_author

__all__ = [
    "GROUP",
    "AskContext",
    "Author",
    "CaseFacts",
    "Exhausted",
    "HistoryRow",
    "OfflineAuthor",
    "ParentView",
    "Proposal",
    "StartView",
    "TaskFacts",
    "author_names",
    "make_author",
]
