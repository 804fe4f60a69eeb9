"""A shape that no author sees."""

CASES = {"odd": {"channels": 20, "size": 23}}
