"""What every database behind the store must do.

Inherit `StoreConformance` in a test module and give the URL of the database:

    class TestPostgres(StoreConformance):
        def url(self, home): return "postgresql+psycopg://host/name"
"""

from .leases_and_jobs import LeasesAndJobs
from .round_trips import RoundTrips
from .session_life import SessionLife
from .skill_history import SkillHistory

__all__ = ["StoreConformance"]


class StoreConformance(RoundTrips, SessionLife, LeasesAndJobs, SkillHistory):
    """The conformance tests: inherit and override `url`. The database may contain rows of other
    tests, so no test counts all rows."""
