"""The likeness of two kernels' texts, by their significant lines; pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

LIKE = 0.5  # share of its lines from which a kernel counts as derived from another
LEAST_LINES = 8  # of a text; fewer do not tell where it came from

_WORDLESS = 3  # letters and digits; a line with fewer is a bracket, an else or the like
_COMMON = (
    "# ",
    "//",
    "import ",
    "from ",
    "#include",
    '"""',
    "@triton",
    "class ModelNew",
    "def __init__",
    "super().__init__",
)


@dataclass(frozen=True)
class Likeness:
    """A kernel's likeness to a node. node: the earlier node that shares most with it. share: the
    share of the kernel's lines that the node's text contains, 0..1."""

    node: str
    share: float

    @property
    def enough(self) -> bool:
        """Return whether the kernel counts as derived from the node."""
        return self.share >= LIKE


def nearest(source: str, earlier: Iterable[tuple[str, str]]) -> Likeness | None:
    """Return the most similar of (node id, source), the later one of equals; None without earlier
    texts, and for a text of fewer than LEAST_LINES significant lines.

    Lines count as often as they occur, in any order, since a function that moved is still the same
    function. Blank lines, comments, imports, brackets and lines of every candidate do not count.
    """
    own = telling_lines(source)
    total = sum(own.values())
    if total < LEAST_LINES:
        return None
    best: Likeness | None = None
    for node, text in earlier:
        share = sum((own & telling_lines(text)).values()) / total
        if best is None or share >= best.share:
            best = Likeness(node, share)
    return best


def telling_lines(source: str) -> Counter[str]:
    """Return the significant lines of a text, with white space normalized."""
    lines = (" ".join(line.split()) for line in source.splitlines())
    return Counter(
        x for x in lines if sum(map(str.isalnum, x)) > _WORDLESS and not x.startswith(_COMMON)
    )
