"""Ask and tell: the one façade over search, store, synthesis, export, knowledge and executors.
`Service` opens sessions, says what to write next, records what came of it, finishes, and shows
everything; its requests and answers are in `types`."""

from .pool import ExecutorFactory
from .service import Service

__all__ = ["ExecutorFactory", "Service"]
