"""Whom the workers of a judge that runs as root become in namespaces: each somebody else.

The limit on processes counts all of a user's, threads included: a candidate that starts as many as
it may would leave another one of the same comparison none, and a fork bomb under one judge would
starve the others.
"""

from __future__ import annotations

import itertools
import random

# systemd keeps these numbers for users that come and go
FIRST_USER, USERS = 61184, 4336

# in no order, which would tell a candidate how many were started before it
_numbers = itertools.cycle(
    random.SystemRandom().sample(range(FIRST_USER, FIRST_USER + USERS), USERS)
)


def next_user() -> int:
    """A user that no other living worker of this judge is, and hardly one of another judge."""
    return next(_numbers)
