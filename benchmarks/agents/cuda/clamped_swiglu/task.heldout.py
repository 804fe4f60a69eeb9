"""A shape that no author sees."""

CASES = {"odd": {"tokens": 77, "width": 1000}}
