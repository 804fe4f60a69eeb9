"""A shape that no author sees."""

CASES = {"odd": {"sequences": 3, "blocks": 7, "heads": 5, "width": 40, "kept": 100}}
