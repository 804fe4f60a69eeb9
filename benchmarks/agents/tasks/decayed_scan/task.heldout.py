"""A shape that no author sees."""

CASES = {"odd": {"batch": 3, "steps": 17, "channels": 100}}
