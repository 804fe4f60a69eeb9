"""Right or wrong, from bytes alone: how far a result is off, what is allowed, where and how it
differs. Knows no process and no clock."""
