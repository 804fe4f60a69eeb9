"""A shape that no author sees."""

CASES = {"odd": {"batch": 1, "channels": 96, "size": 21}}
