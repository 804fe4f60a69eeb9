"""A shape that no author sees."""

CASES = {"odd": {"rows": 7, "width": 1003}}
