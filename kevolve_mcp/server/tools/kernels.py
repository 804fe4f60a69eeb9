"""kernel_compile, kernel_check, kernel_profile, kernel_submit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kevolve_mcp.errors import UsageError
from kevolve_mcp.search.node import MOST_PREDICTED
from kevolve_mcp.sessions.types import CompareRequest, KernelRequest, SubmitRequest, Text

from .. import arguments as a
from ..context import caller, file_access, service
from ..jobs import checked, evaluation_answer, wait
from ..results import EvaluationReply

Session = Annotated[str, Field(description="Takes task and target from it")]
OfSession = Annotated[str, Field(description="Default: the session's, or cpu")]


async def kernel_compile(
    ctx: Context[Any],
    path: a.KernelPath = "",
    source: a.KernelSource = "",
    session_id: Session = "",
    task_path: a.TaskPath = "",
    task_source: a.TaskSource = "",
    target: OfSession = "",
    language: a.Language = "",
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, EvaluationReply]:
    """Only build a candidate (under a second for C++): compiler diagnostics and static facts such
    as vector width and spills. Runs nothing and proves nothing; kernel_check does. Give session_id
    or a task."""
    request = await _request(
        ctx, path, source, session_id, task_path, task_source, target, language
    )
    return evaluation_answer(
        checked(await wait(ctx, await (await service(ctx)).compile(request), wait_s))
    )


async def kernel_check(
    ctx: Context[Any],
    path: a.KernelPath = "",
    source: a.KernelSource = "",
    session_id: Session = "",
    task_path: a.TaskPath = "",
    task_source: a.TaskSource = "",
    target: OfSession = "",
    language: a.Language = "",
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, EvaluationReply]:
    """Build and verify a candidate against the high-precision reference on secret inputs (seconds).
    Times nothing, records no node; answers with an evaluation_id. Use it until a kernel is correct,
    then kernel_submit to record it."""
    request = await _request(
        ctx, path, source, session_id, task_path, task_source, target, language
    )
    return evaluation_answer(
        checked(await wait(ctx, await (await service(ctx)).check(request), wait_s))
    )


async def kernel_profile(
    ctx: Context[Any],
    path: a.KernelPath = "",
    source: a.KernelSource = "",
    session_id: Session = "",
    task_path: a.TaskPath = "",
    task_source: a.TaskSource = "",
    target: OfSession = "",
    language: a.Language = "",
    against: Annotated[
        list[str] | None, Field(description="Kernels to time it against: node ids, paths or texts")
    ] = None,
    repeat: a.Repeat = False,
    effort: a.Effort = 1,
    ablation: Annotated[bool, Field(description="Time it even if incorrect")] = False,
    tune: Annotated[int, Field(description="Number of TUNABLES choices to try")] = 0,
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, EvaluationReply]:
    """Build, verify, time and diagnose a candidate (5-30 s) without recording a node: speed-up per
    case with interval, share of the measured ceiling, what bounds it. kernel_submit does the same
    and records it; prefer that inside a search. With against: compares it with other kernels."""
    request = await _request(
        ctx, path, source, session_id, task_path, task_source, target, language
    )
    request = replace(request, repeat=repeat, effort=effort)
    if ablation and against is not None:
        raise UsageError(
            "ablation and against were both given",
            "Only correct kernels are timed against each other.",
        )
    if repeat and against is not None:
        raise UsageError(
            "repeat and against were both given",
            "A comparison is always measured anew: give against with effort for a narrower "
            "interval, or repeat without against for more samples of one kernel.",
        )
    if tune and (ablation or repeat or against is not None or effort != 1):
        raise UsageError(
            "tune cannot be combined with against, repeat, effort or ablation",
            "Tune first, then measure in the other way.",
        )
    if tune:
        return evaluation_answer(
            checked(await wait(ctx, await (await service(ctx)).tune(request, tune), wait_s))
        )
    if ablation:
        return evaluation_answer(
            checked(await wait(ctx, await (await service(ctx)).ablate(request), wait_s))
        )
    if against is not None:
        comparison = await _compare_request(ctx, request, against)
        return evaluation_answer(
            checked(await wait(ctx, await (await service(ctx)).compare(comparison), wait_s))
        )
    return evaluation_answer(
        checked(await wait(ctx, await (await service(ctx)).profile(request), wait_s))
    )


async def kernel_submit(
    ctx: Context[Any],
    session_id: a.SessionId,
    path: a.KernelPath = "",
    source: a.KernelSource = "",
    ask_id: Annotated[str, Field(description='The ask it answers, e.g. "a7"')] = "",
    parents: Annotated[
        list[str] | None, Field(description='Without ask_id: nodes it derives from, e.g. ["n3"]')
    ] = None,
    hypothesis: Annotated[
        str, Field(description="What changes and why it should be faster, one sentence")
    ] = "",
    predicted_speedup: Annotated[
        float | None,
        Field(gt=0, le=MOST_PREDICTED, description="Against the parent: 1.2 is 20 % faster"),
    ] = None,
    rationale: Annotated[str, Field(description="Reasoning worth keeping")] = "",
    usage: a.UsageArgument = None,
    repeat: a.Repeat = False,
    effort: a.Effort = 1,
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, EvaluationReply]:
    """Evaluate a candidate and record it as a node, also when it fails: build, verify, time,
    profile, diagnose (5-30 s; longer for a possible new best, which is timed against the best in up
    to 15 processes). Answers with the verdict, the reason, the change against its parent, and what
    to read.

    Without path and source, ask_id must be a start, which is evaluated. The same text again is
    answered from the store, unless repeat or effort asks for more."""
    used = a.parse_usage(usage)
    request = SubmitRequest(
        session_id,
        await file_access(ctx).text(path, source),
        ask_id,
        tuple(parents or ()),
        hypothesis,
        predicted_speedup,
        rationale,
        used.tokens,
        used.usd,
        caller(ctx),
        repeat,
        effort,
    )
    return evaluation_answer(
        checked(await wait(ctx, await (await service(ctx)).submit(request), wait_s))
    )


async def _compare_request(
    ctx: Context[Any], request: KernelRequest, against: list[str]
) -> CompareRequest:
    return CompareRequest(
        **vars(request), against=tuple([await _kernel(ctx, each) for each in against])
    )


async def _kernel(ctx: Context[Any], named: str) -> str | Text:
    """A node's id unchanged, or a path or text that the caller may name."""
    if re.fullmatch(r"n\d+", named):
        return named
    return (
        await file_access(ctx).text("", named)
        if "\n" in named
        else await file_access(ctx).text(named, "")
    )


async def _request(
    ctx: Context[Any],
    path: str,
    source: str,
    session_id: str,
    task_path: str,
    task_source: str,
    target: str,
    language: str,
) -> KernelRequest:
    return KernelRequest(
        kernel=await file_access(ctx).text(path, source),
        session_id=session_id,
        task=await file_access(ctx).text(task_path, task_source, "task_"),
        target=a.parse_target(target) if target else "",
        language=language,
    )
