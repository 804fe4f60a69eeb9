"""A shape that no author sees."""

CASES = {"odd": {"tokens": 33, "experts": 27}}
