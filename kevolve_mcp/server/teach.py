"""Errors that tell the caller what to do: wrong arguments before a tool runs, KEvolve's own errors
after.

The SDK drops unknown arguments silently, shows raw pydantic text for wrong ones, and hides the text
of every exception that is not its own. This module replaces all three. It alone uses private names
of the SDK (`_tool_manager`, `fn_metadata`); a test fails when a release moves them.
"""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Extension, MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolRequestParams, CallToolResult, TextContent
from pydantic import ValidationError

from kevolve_mcp.actions import sentences
from kevolve_mcp.errors import KEvolveError, io_message, shortened
from kevolve_mcp.synthesis.wording import said

from .calls import call

P = ParamSpec("P")
log = logging.getLogger(__name__)


def failure(error: KEvolveError) -> CallToolResult:
    """Return an error as a result: text for a model, and the same as an object."""
    # a task, a compiler or a file name may be quoted: no line of it may look like ours
    message, hint = said(shortened(error.message)), said(shortened(error.hint))
    following = shortened(sentences(error.actions, call))
    text = f"Error ({error.code}): {message}"
    text += f"\nHint: {hint}" if hint else ""
    text += f"\nNext: {following}" if following else ""
    if error.retryable:
        text += "\nThe same call may succeed later."
    data = {**error.as_dict(), "message": message, "hint": hint, "next": following}
    return CallToolResult(
        is_error=True, content=[TextContent(type="text", text=text)], structured_content=data
    )


class _AtBorder(KEvolveError):
    """An error that arises here: a wrong call, or an unforeseen exception."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.code = code  # type: ignore[misc]


def teaching(
    tool: Callable[P, Awaitable[CallToolResult]],
) -> Callable[P, Awaitable[CallToolResult]]:
    """Return the tool with its exceptions turned into errors that a model can act on."""

    @functools.wraps(tool)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> CallToolResult:
        try:
            return await tool(*args, **kwargs)
        except KEvolveError as error:
            return failure(error)
        except OSError as error:
            log.exception("%s failed", tool.__name__)
            return failure(
                _AtBorder("io", io_message(error), "Fix the file or folder named, then call again.")
            )
        except Exception as error:
            log.exception("%s failed", tool.__name__)
            hint = "This is a bug in the server; its log has the traceback. Other tools still work."
            return failure(_AtBorder("internal", f"{type(error).__name__}: {error}", hint))

    return wrapped


class Teach(Extension):
    """An extension that checks the name and arguments of every call and explains what is wrong.
    Call `attach` with the server after construction."""

    identifier = "io.github.kevolve/teach"
    server: MCPServer[Any]

    def attach(self, server: MCPServer[Any]) -> None:
        self.server = server

    async def intercept_tool_call(
        self,
        params: CallToolRequestParams,
        ctx: ServerRequestContext[Any, Any],
        call_next: CallNext,
    ) -> HandlerResult:
        tool = self.server._tool_manager.get_tool(params.name)
        if tool is None:
            names = [t.name for t in await self.server.list_tools()]
            what = f"There is no tool {params.name!r:.80}.{_near(params.name, names)}"
            return failure(_AtBorder("unknown_tool", what, f"Tools: {', '.join(names)}."))
        known = list(tool.parameters.get("properties", {}))
        arguments = dict(params.arguments or {})
        wrong = [
            f"unknown argument {name!r:.80}{_near(name, known)}"
            for name in arguments
            if name not in known
        ]
        try:
            tool.fn_metadata.arg_model.model_validate(tool.fn_metadata.pre_parse_json(arguments))
        except ValidationError as error:
            wrong += [_sentence(dict(problem)) for problem in error.errors(include_url=False)]
        if wrong:
            hint = f"Arguments of {params.name}: {', '.join(known) or 'none'}."
            what = f"{params.name}: {'; '.join(wrong)}."
            return failure(_AtBorder("bad_arguments", what, hint))
        return await call_next(ctx)


def _sentence(problem: dict[str, Any]) -> str:
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"argument {place!r} is required"
    return f"{place}: {problem['msg']} (got {problem['input']!r:.80})"


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f", did you mean {near[0]!r}?" if near else ""


def slim(tool: Tool) -> None:
    """Drop what is redundant in a tool's schemas: every client pays for it in tokens on every
    connection."""
    tool.description = "\n\n".join(" ".join(p.split()) for p in tool.description.split("\n\n"))
    _slim(tool.parameters)
    if tool.output_schema is not None:
        _slim(tool.output_schema)
        _slim_output(tool.output_schema)
        tool.output_schema.pop("description", None)


def _slim_output(schema: Any) -> None:
    """Drop additionalProperties and defaults, which a reader of answers does not need."""
    for field in schema["properties"].values():
        options = field.pop("anyOf", None)
        if options:
            field["type"] = [option["type"] for option in options]
        field.pop("default", None)
        for described in (field, field.get("items", {})):
            described.pop("additionalProperties", None)


def _slim(schema: Any) -> None:
    """Drop generated titles, which repeat the names, and defaults of "" or null, which only say
    that the argument is optional."""
    if isinstance(schema, list):
        for value in schema:
            _slim(value)
    if not isinstance(schema, dict):
        return
    if {"type", "anyOf", "default"} & set(schema):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        # the default of JSON Schema
        if schema.get("additionalProperties") is True:
            del schema["additionalProperties"]
        if "default" in schema and schema["default"] in ("", None):
            del schema["default"]
    for value in schema.values():
        _slim(value)
