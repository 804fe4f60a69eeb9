"""A shape that no author sees."""

CASES = {"odd": {"rows": 301, "width": 192}}
