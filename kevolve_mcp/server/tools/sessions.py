"""session_open, session_next, session_finish."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from harness.types import to_json
from kevolve_mcp.sessions.types import FinishRequest, SessionSpec

from .. import arguments as a
from ..calls import call
from ..context import caller, file_access, service, told_apart
from ..jobs import checked, finish_answer, open_answer, wait
from ..results import AsksReply, FinishReply, SessionReply, answer, left_of, said
from ..wording import sessions as wording


async def session_open(
    ctx: Context[Any],
    task_path: a.TaskPath = "",
    task_source: a.TaskSource = "",
    target: a.TargetName = "cpu",
    language: a.Language = "",
    goal: Annotated[
        str, Field(description="best, speedup:2, latency_us:50 or roofline:0.8")
    ] = "best",
    budget: a.BudgetArgument = None,
    start_path: Annotated[
        str,
        Field(
            description=(
                "A kernel to start from; start_LANGUAGE.py or start.py beside the task is found "
                "without it"
            )
        ),
    ] = "",
    start_source: Annotated[str, Field(description="Its text, instead of start_path")] = "",
    python: Annotated[
        str, Field(description="Interpreter that evaluates; default: found near the task")
    ] = "",
    policy: a.PolicyArgument = None,
    new: Annotated[
        bool, Field(description="Open another session even if an equal one is open")
    ] = False,
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, SessionReply]:
    """Start optimizing a task: a PyTorch reference in KernelBench form (class Model, get_inputs,
    get_init_inputs).

    Measures the baselines to beat and the roofline (10-60 s), collects starting kernels, answers
    with the session id. Repeated with the same task, target and language, it joins the open
    session. A task that cannot be judged honestly is refused with the line and the fix. Then call
    session_next."""
    rules, search = a.parse_policy(policy)
    spec = SessionSpec(
        task=await file_access(ctx).text(task_path, task_source, "task_"),
        target=a.parse_target(target),
        language=language,
        goal=a.parse_goal(goal),
        budget=a.parse_budget(budget),
        start=await file_access(ctx).text(start_path, start_source, "start_"),
        python=file_access(ctx).python(python),
        policy=rules,
        search=search,
        new=new,
    )
    return open_answer(checked(await wait(ctx, await (await service(ctx)).open(spec), wait_s)))


async def session_next(
    ctx: Context[Any],
    session_id: a.SessionId,
    count: Annotated[
        int, Field(ge=1, le=16, description="Asks to take at once, for parallel authors")
    ] = 1,
    ask_id: Annotated[str, Field(description='Read this ask again instead, e.g. "a7"')] = "",
    fresh: Annotated[
        bool,
        Field(
            description=(
                "For an author that has seen nothing of this session: a further ask with nothing "
                "left out"
            )
        ),
    ] = False,
    max_tokens: Annotated[
        int | None,
        Field(
            ge=1000,
            le=100_000,
            description="Size of the whole answer; default: 3000 for the first ask, then 1500",
        ),
    ] = None,
    budget: Annotated[
        dict[str, float] | None,
        Field(description="Replaces the session's budget, to go on when it is spent"),
    ] = None,
) -> Annotated[CallToolResult, AsksReply]:
    """Ask what to write next: the parents to improve with their diagnosis, what was tried, what is
    known, how to answer.

    Answer with kernel_submit(ask_id=...); until then you get the same ask. It only refers to what
    you were given before. Says when the search has ended (goal, budget, stall, roofline). While
    you write, starts and TUNABLES are evaluated; the first call may wait for a start."""
    batch = await (await service(ctx)).next(
        session_id,
        count=count,
        ask_id=ask_id,
        fresh=fresh or not told_apart(ctx),
        max_tokens=max_tokens,
        author=caller(ctx),
        budget=None if budget is None else a.parse_budget(budget),
        say=call,
    )
    phrase = wording.asked(batch)
    reply = AsksReply(
        **said(phrase, left_of(batch.session)),
        session=to_json(batch.session),
        asks=[ask.as_json() for ask in batch.asks],
        ended=batch.ended,
        ended_detail=batch.ended_detail,
    )
    return answer(phrase, reply)


async def session_finish(
    ctx: Context[Any],
    session_id: a.SessionId,
    node_id: Annotated[str, Field(description="Export this node instead of the best")] = "",
    include_files: Annotated[
        bool, Field(description="Include the package's files as text")
    ] = False,
    discard: Annotated[
        bool, Field(description="Close without exporting; running jobs are cancelled")
    ] = False,
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, FinishReply]:
    """End a session: re-validate the winner in fresh processes with fresh seeds and held-out cases,
    export it as a self-contained package, verify and time that package as a user calls it (the
    figure to report), propose skills from what helped.

    Takes about as long as three evaluations. Repeated, it answers with the same result. The tree
    stays readable."""
    request = FinishRequest(session_id, node_id, include_files, discard)
    return finish_answer(
        checked(await wait(ctx, await (await service(ctx)).finish(request), wait_s))
    )
