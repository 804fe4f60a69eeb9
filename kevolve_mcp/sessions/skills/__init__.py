"""Skills: proposed from measured nodes with their evidence, accepted by measurement or a person,
shown where they fit, counted when used, and dropped when they keep failing. They are exchanged as
folders. A module is loaded when one of its names is used, since a search only needs `learned`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .deciding import Acceptance, note_outcomes, settle
    from .learned import Learned, is_learned
    from .proposing import propose_from
    from .using import used_by
    from .views import brief

__all__ = [
    "Acceptance",
    "Learned",
    "brief",
    "is_learned",
    "note_outcomes",
    "propose_from",
    "settle",
    "used_by",
]

__getattr__ = loader(
    __name__,
    {
        "deciding": ("Acceptance", "note_outcomes", "settle"),
        "learned": ("Learned", "is_learned"),
        "proposing": ("propose_from",),
        "using": ("used_by",),
        "views": ("brief",),
    },
)
