"""Which characters a reader sees. What is invisible can carry text past a person, direct a terminal
or break a line that looks whole."""

from __future__ import annotations

import re
import unicodedata

LONGEST_NAME = 80
_ALLOWED = "\n\t"
# control, format (zero width, direction, tags), surrogate, private, unassigned; ends of a line and
# of a paragraph
_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# the characters of other categories with the property Default_Ignorable_Code_Point (Unicode 16,
# DerivedCoreProperties): joiners, fillers, variation selectors
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def is_invisible(char: str) -> bool:
    """Return whether a reader does not see a character. Newline, tab and spaces of every width are
    fine."""
    if char in _ALLOWED:
        return False
    return unicodedata.category(char) in _CATEGORIES or _IGNORED.match(char) is not None


def invisible(text: str) -> str:
    """Return the first character that a reader does not see, "" if there is none."""
    return next((c for c in text if is_invisible(c)), "") if _may_hide(text) else ""


def visible(text: str) -> str:
    """Return the text with a space in place of each character that a reader does not see."""
    return "".join(" " if is_invisible(c) else c for c in text) if _may_hide(text) else text


def name_problem(name: str) -> str:
    """Return what keeps a name from being shown in a line among others, "" if nothing does."""
    if not name.strip() or len(name) > LONGEST_NAME:
        return f"has {len(name.strip())} characters"
    hidden = invisible(name) or next((c for c in name if c in _ALLOWED), "")
    return f"contains the character U+{ord(hidden):04X}" if hidden else ""


def _may_hide(text: str) -> bool:
    # quick, since most texts are long and plain
    return not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable())
