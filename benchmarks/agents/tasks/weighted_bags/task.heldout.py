"""A shape that no author sees."""

CASES = {"odd": {"bags": 31, "size": 7, "width": 50}}
