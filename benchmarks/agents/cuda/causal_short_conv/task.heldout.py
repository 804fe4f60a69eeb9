"""A shape that no author sees."""

CASES = {"odd": {"batch": 2, "channels": 50, "steps": 77}}
