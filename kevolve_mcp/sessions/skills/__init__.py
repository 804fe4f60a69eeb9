"""Skills: proposed from measured nodes with their evidence, accepted by measurement or a person,
shown where they fit, counted wherever they are used, and given up where they keep failing. They
travel as folders."""

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
