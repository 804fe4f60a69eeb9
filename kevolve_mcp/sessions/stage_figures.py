"""What the figures of a stage mean, for whoever reads its report."""

from __future__ import annotations

from collections.abc import Container

MEANINGS: dict[str, dict[str, str]] = {
    "time": {
        "processes": "fresh processes of the candidate",
        "clocks_us": (
            "the calls of a burst, by the clock that gives the figure, and the least that the "
            "judge's clock saw of them"
        ),
        "said_us": "the same by the process's own clock, where that is another one: never judged",
        "nothing_us": (
            "a call that does nothing, and the part of it that passes inside the worker; on a CPU "
            "the figures of both sides include it"
        ),
        "ahead": (
            "how many times as long calls take that are not measured, beyond what the baseline's "
            "do; the figure is multiplied by it"
        ),
        "alone": "the same of a call alone, against one of several in a row on a device",
        "blocks": "by process: the machine before and after, what disturbed it, and the ratios",
        "samples": "where the measured rounds are kept, so that later ones can join them",
    },
    "profile": {
        "page_faults": "of a call",
        "involuntary_switches": "times the kernel took the core away while it was timed",
    },
}
"""Stage -> name in its data -> one sentence. Microseconds, by case."""


def legend(stage: str, names: Container[str]) -> list[str]:
    """A line for each of the names that has a meaning."""
    found = [f"  {name}: {text}" for name, text in MEANINGS.get(stage, {}).items() if name in names]
    return ["where", *found] if found else []
