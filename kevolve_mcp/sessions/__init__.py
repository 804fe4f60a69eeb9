"""Ask and tell: the façade over search, store, synthesis, export, knowledge and executors.
`Service` opens sessions, says what to write next, records results, finishes sessions and shows
everything; its requests are in `types`, its answers in `kevolve_mcp.api`. `Looking` and `Knowledge`
are the parts that only need a `Home`. Everything is imported on first use, since code that only
names a request needs none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .home import Home
    from .knowledge import Knowledge
    from .looking import Looking
    from .pool import ExecutorFactory
    from .service import Service

__all__ = ["ExecutorFactory", "Home", "Knowledge", "Looking", "Service"]

__getattr__ = loader(
    __name__,
    {
        "home": ("Home",),
        "knowledge": ("Knowledge",),
        "looking": ("Looking",),
        "pool": ("ExecutorFactory",),
        "service": ("Service",),
    },
)
