"""Checks of a skill's text: it may not contain figures, which belong to the evidence, paths, which
belong to one machine, or instructions to the reader.

The checks are simple patterns. They do not prove a text harmless, so skills are shown as reference
material and need evidence or a person's decision. They refuse what is certainly wrong, and say how
to write it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kevolve_mcp.errors import UsageError
from kevolve_mcp.visible import invisible

MAX_TEXT = 4000
MAX_TITLE = 160
_UNITS = (
    r"x|×|%|percent|times|[nuµm]s|milliseconds|microseconds|[KMGT]i?B/s|[GT]?FLOPS?|Gop/s|cycles"
)
_MEASUREMENT = re.compile(
    rf"(?<![\w.])\d+(?:\.\d+)?\s?(?:{_UNITS})(?![\w×])(?!\s?\d)", re.IGNORECASE
)
_PATH = re.compile(
    r"(?:^|[\s\"'(=`])((?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]*)+|~/\S+|[A-Za-z]:\\\S+|file://\S+|"
    r"https?://\S+)"
)
_ORDERS = (
    (
        r"\b(?:ignore|disregard|forget|override)\b[^.\n"
        r"]{0,40}\b(?:instruction|prompt|rule|above|previous|prior|earlier)"
    ),
    r"\b(?:system|developer)\s+(?:prompt|message)\b",
    r"</?\s*(?:system|assistant|user|instructions?|tool_call)\b|\[/?INST\]|<\|",
    r"^[^\S\n]*(?:system|assistant|user|human)\s*:",  # a line at a time, or blank ones take long
    r"\byou (?:must|have to|are now|are an?|should now)\b",
    r"\b(?:do not|don't|never) (?:tell|reveal|mention|report|inform)\b",
    (
        r"\b(?:session|kernel|tree|skill|job|knowledge|target)_(?:open|next|finish|submit|check|"
        r"compile|profile|record|cancel|wait|read)\b"
    ),
    r"\b(?:curl|wget|sudo|ssh|pip install|rm -rf?|chmod|eval)\s+\S",
)
_ORDER = re.compile("|".join(_ORDERS), re.IGNORECASE | re.MULTILINE)


def problem(text: str) -> tuple[str, str]:
    """Return what is not allowed in a text, and what to write instead; ("", "") if it is fine."""
    wrong = problem_anywhere(text)
    if not wrong[0] and (match := _MEASUREMENT.search(text)):
        return (
            f"contains a measurement ({_shown(match[0])})",
            (
                "The nodes already provide the figures as evidence. Say in words when and why it "
                "is faster."
            ),
        )
    return wrong


def problem_anywhere(text: str) -> tuple[str, str]:
    """Return what is not allowed in texts or code, like `problem`. Code may contain numbers before
    names."""
    if hidden := invisible(text):
        return f"contains an invisible character (U+{ord(hidden):04X})", "Write plain text."
    if match := _ORDER.search(text):
        return (
            f"addresses the reader instead of describing kernels ({_shown(match[0])})",
            "Describe the pattern, not what a reader should do with tools or instructions.",
        )
    if match := _PATH.search(text):
        return (
            f"contains a path or an address ({_shown(match[1])})",
            "Name the thing, not its place on one machine.",
        )
    return "", ""


def is_hostile(text: str) -> bool:
    """Return whether a short text hides characters, breaks lines, or addresses the reader."""
    return bool(invisible(text) or _ORDER.search(text) or "\n" in text)


def check(texts: Mapping[str, str]) -> None:
    """Check title, mechanism and the other texts by name, without code. Raises UsageError naming
    the field."""
    for name, text in texts.items():
        limit = MAX_TITLE if name == "title" else MAX_TEXT
        if name in ("title", "mechanism") and not text.strip():
            raise UsageError(f"{name} is empty", "Say it in a few sentences.")
        if len(text) > limit:
            raise UsageError(
                f"{name} is longer than {limit} characters", "Say it in a few sentences."
            )
        if name == "title" and "\n" in text.strip():
            raise UsageError("title has more than one line", "Say what to do in a few words.")
        wrong, fix = problem(text)
        if wrong:
            raise UsageError(f"{name} {wrong}", fix)


def plain_sentences(text: str) -> str:
    """Return the sentences of a text that are allowed, "" when none is."""
    parts = re.split(r"(?<=[.;!?])\s+|\n+", text.strip())
    return " ".join(p for p in parts if p.strip() and not problem(p)[0])


def _shown(text: str) -> str:
    return repr(" ".join(text.split())[:60])
