"""Authors, which answer asks. `choose_author` returns the one that `--author` names: the offline
author, a language model, or any command; third parties register under "kevolve.authors"."""

from kevolve_mcp.synthesis.ask import (
    AskAllowance,
    AskContext,
    CaseFacts,
    HistoryRow,
    ParentView,
    StartView,
    TaskFacts,
)

from .answers import InvalidAnswer, Words, Written, check_source, read_answer
from .base import (
    FREE,
    Author,
    AuthorError,
    AuthorUnavailable,
    AuthorUnusable,
    BudgetSpent,
    Cost,
    Exhausted,
    Proposal,
    starting_kernel,
)
from .command import CommandAuthor
from .llm import LLMAuthor
from .offline import OfflineAuthor
from .prices import Prices
from .providers import Backoff, ModelName
from .registry import GROUP, VENDORS, AuthorOptions, author_names, choose_author, make_author

__all__ = [
    "FREE",
    "GROUP",
    "VENDORS",
    "AskAllowance",
    "AskContext",
    "Author",
    "AuthorError",
    "AuthorOptions",
    "AuthorUnavailable",
    "AuthorUnusable",
    "Backoff",
    "BudgetSpent",
    "CaseFacts",
    "CommandAuthor",
    "Cost",
    "Exhausted",
    "HistoryRow",
    "InvalidAnswer",
    "LLMAuthor",
    "ModelName",
    "OfflineAuthor",
    "ParentView",
    "Prices",
    "Proposal",
    "StartView",
    "TaskFacts",
    "Words",
    "Written",
    "author_names",
    "check_source",
    "choose_author",
    "make_author",
    "read_answer",
    "starting_kernel",
]
