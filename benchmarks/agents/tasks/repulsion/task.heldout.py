"""A shape that no author sees."""

CASES = {"odd": {"points": 77, "others": 501}}
