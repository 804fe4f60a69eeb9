"""A transcript as calls: what was asked, what came back, how long it took, how much was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """at: seconds from the run's beginning to the request. seconds: until its answer. text: as a
    model reads it. data: the structured content. error: its code, "" where there is none;
    "protocol" where the message itself was refused, "unanswered" where nothing came back. first:
    whether this answer holds the run's first ask."""

    at: float
    seconds: float
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    first: bool = False

    @property
    def kind(self) -> str:
        """Which kind of reply this was: the tool, and for asks whether it was the first, a later
        one or the same again."""
        if self.error:
            return "error"
        if self.data.get("state") == "running":
            return "still running"
        return f"{self.tool}: {self._ask}" if self.tool == "session_next" else self.tool

    @property
    def _ask(self) -> str:
        asks = self.data.get("asks") or ()
        if not asks:
            return "ended"
        if asks[0].get("repeated") or self.arguments.get("ask_id"):
            return "again"
        return "first" if self.first else "later"

    @property
    def evaluated(self) -> dict[str, Any]:
        """The result of one evaluated kernel, {} for any other answer."""
        result = self.data.get("result")
        return result if isinstance(result, dict) and "evaluation" in result else {}


def read(path: Path, began: float) -> tuple[Call, ...]:
    """In the order of the requests. began: of the run, seconds of the epoch. A run without the
    server has no calls."""
    calls = sorted(_calls(path, began), key=lambda call: call.at) if path.exists() else []
    first = next((i for i, call in enumerate(calls) if call.data.get("asks")), None)
    return tuple(replace(call, first=i == first) for i, call in enumerate(calls))


def _calls(path: Path, began: float) -> Iterator[Call]:
    asked: dict[Any, tuple[float, dict[str, Any]]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            message, at = row["message"], row["at"] - began
            if not isinstance(message, dict):
                continue
            if "connected" in message:  # ids begin anew
                yield from _unanswered(asked)
                asked = {}
            elif row["from"] == "client" and message.get("method") == "tools/call":
                asked[message["id"]] = (at, message.get("params") or {})
            elif row["from"] != "client" and message.get("id") in asked:
                begun, params = asked.pop(message["id"])
                yield _call(begun, at - begun, params, message)
    yield from _unanswered(asked)


def _unanswered(asked: dict[Any, tuple[float, dict[str, Any]]]) -> Iterator[Call]:
    for at, params in asked.values():
        yield Call(at, 0.0, params.get("name", ""), _arguments(params), error="unanswered")


def _call(at: float, seconds: float, params: dict[str, Any], message: dict[str, Any]) -> Call:
    tool, arguments = params.get("name", ""), _arguments(params)
    if "error" in message:
        text = str(message["error"].get("message", ""))
        return Call(at, seconds, tool, arguments, text, error="protocol")
    result = message.get("result") or {}
    text = "\n".join(b["text"] for b in result.get("content", ()) if b.get("type") == "text")
    data = result.get("structuredContent")
    data = data if isinstance(data, dict) else {}
    error = str(data.get("code") or "unknown") if result.get("isError") else ""
    return Call(at, seconds, tool, arguments, text, data, error)


def _arguments(params: dict[str, Any]) -> dict[str, Any]:
    return dict(params.get("arguments") or {})
