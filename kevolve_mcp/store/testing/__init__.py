"""What every database behind the store must do.

Inherit `StoreConformance` in a test module and say where the store lies:

    class TestPostgres(StoreConformance):
        def url(self, home): return "postgresql+psycopg://host/name"
"""

from .leases_and_jobs import LeasesAndJobs
from .round_trips import RoundTrips
from .session_life import SessionLife
from .skill_history import SkillHistory

__all__ = ["StoreConformance"]


class StoreConformance(RoundTrips, SessionLife, LeasesAndJobs, SkillHistory):
    """Inherit and override `url`. Stores of one database may hold rows of other tests: nothing here
    counts all rows."""
