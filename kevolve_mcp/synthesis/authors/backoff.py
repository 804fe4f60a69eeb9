"""How long to wait before a provider that failed is asked again. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Exponential with jitter: the n-th failure in a row waits between half and all of
    min(first_s * 2**(n-1), longest_s), or as long as the provider asked for. patience_s: how long a
    provider may keep failing before the author gives up, and stranger_patience_s: one that has not
    answered once."""

    first_s: float = 1.0
    longest_s: float = 60.0
    patience_s: float = 600.0
    stranger_patience_s: float = 60.0

    def pause(
        self, failures: int, random_source: random.Random, asked: float | None = None
    ) -> float:
        """Seconds to wait after so many failures in a row (1 or more). asked: the provider's
        Retry-After."""
        whole = min(self.first_s * 2.0 ** min(failures - 1, 30), self.longest_s)
        return max(asked or 0.0, random_source.uniform(whole / 2, whole))
