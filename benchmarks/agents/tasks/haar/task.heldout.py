"""A shape that no author sees."""

CASES = {"odd": {"images": 3, "size": 90}}
