"""How alike two kernels' texts are, by the lines that say something. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

LIKE = 0.5  # share of its lines from which on a kernel counts as made from another one
LEAST_LINES = 8  # of a text; fewer say nothing about where it came from

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
    """node: the earlier node that shares most with a kernel. share: how much of the kernel's lines
    its text holds, 0..1."""

    node: str
    share: float

    @property
    def enough(self) -> bool:
        """Whether the kernel counts as made from that node."""
        return self.share >= LIKE


def nearest(source: str, earlier: Iterable[tuple[str, str]]) -> Likeness | None:
    """The most alike of (node id, source), the later one of equals. None without earlier texts, and
    for a text of fewer than LEAST_LINES telling lines.

    Lines count as often as they occur, wherever they stand: a function that moved is still the same
    function. Blanks, comments, imports, brackets and what every candidate has do not count.
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
    """The lines of a text that say something about it, their spaces evened out."""
    lines = (" ".join(line.split()) for line in source.splitlines())
    return Counter(
        x for x in lines if sum(map(str.isalnum, x)) > _WORDLESS and not x.startswith(_COMMON)
    )
