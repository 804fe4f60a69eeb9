"""A shape that no author sees."""

CASES = {"odd": {"tokens": 2, "rows": 300, "width": 200}}
