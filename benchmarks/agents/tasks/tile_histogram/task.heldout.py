"""A shape that no author sees."""

CASES = {"odd": {"tiles": 5, "pixels": 1001}}
