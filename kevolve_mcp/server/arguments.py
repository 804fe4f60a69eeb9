"""The arguments that several tools share, each with the description that a model reads."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, TypeVar

from pydantic import Field

from harness.types import Budget, CodecError, Goal, Policy, Spent, Target, from_json
from kevolve_mcp.errors import UsageError
from kevolve_mcp.sessions.types import SearchOptions

T = TypeVar("T")
Wait = Annotated[float, Field(ge=0, description="Seconds to wait, at most 45")]
SessionId = Annotated[str, Field(description='e.g. "rmsnorm-7f3a"')]
KernelPath = Annotated[str, Field(description="Absolute path of the candidate")]
KernelSource = Annotated[str, Field(description="Its text, instead of path")]
TaskPath = Annotated[str, Field(description="Absolute path of the task file or its folder")]
TaskSource = Annotated[str, Field(description="Its text, instead of task_path")]
TargetName = Annotated[str, Field(description="cpu, cuda, cuda:sm_90 ...")]
Effort = Annotated[float, Field(ge=1, le=8, description="Multiple of the usual measuring time")]
Repeat = Annotated[bool, Field(description="Measure again and pool with earlier samples")]
Language = Annotated[str, Field(description="cpp, triton ...")]


PolicyArgument = Annotated[
    dict[str, str | bool | int | float] | str | None,
    Field(
        description=(
            '"greedy", "evolutionary", "mcts", or an object: selection, library_calls (flag, '
            "allow, reject), isolation, tolerance (default, bitwise), review, memory_gib, skills, "
            "seed, inject, tune (0..1)"
        )
    ),
]
BudgetArgument = Annotated[
    dict[str, float] | None,
    Field(
        description=(
            "Limits by name: evaluations, seconds, device_seconds, tokens, usd; default: none; a "
            "stalled search ends anyway"
        )
    ),
]

UsageArgument = Annotated[
    dict[str, float] | None,
    Field(
        description=(
            'Cost of writing it, e.g. {"tokens": 5200, "usd": 0.03}; counts against the budget'
        )
    ),
]


def parse_usage(usage: dict[str, float] | None) -> Spent:
    """Return what an author used: tokens and usd. Raises UsageError naming what is accepted."""
    data = usage or {}
    if unknown := sorted(data.keys() - {"tokens", "usd"}):
        raise UsageError(
            f"usage: unknown field {unknown[0]!r}", 'Example: usage={"tokens": 5200, "usd": 0.03}.'
        )
    if any(not 0 <= v < float("inf") for v in data.values()):
        raise UsageError(
            f"usage {usage}: no figure may be negative or infinite",
            "Leave out figures that you do not know.",
        )
    return Spent(tokens=round(data.get("tokens", 0)), usd=float(data.get("usd", 0.0)))


def parse_policy(
    argument: dict[str, str | bool | int | float] | str | None,
) -> tuple[Policy, SearchOptions]:
    """Return what candidates may do, and how the session searches. A single word names the
    selection policy. Raises UsageError naming what is accepted."""
    data = {"selection": argument} if isinstance(argument, str) else argument or {}
    example = 'Example: policy={"selection": "evolutionary"}.'
    accepted = {f.name: cls for cls in (Policy, SearchOptions) for f in fields(cls)}
    if unknown := sorted(data.keys() - accepted.keys()):
        known = ", ".join(sorted(accepted))
        raise UsageError(f"policy: unknown field {unknown[0]!r}; known: {known}", example)
    rules = {name: value for name, value in data.items() if accepted[name] is Policy}
    search = {name: value for name, value in data.items() if accepted[name] is SearchOptions}
    policy = _decoded(Policy, rules, "policy", example)
    return policy, _decoded(SearchOptions, search, "policy", example)


def parse_budget(limits: dict[str, float] | None) -> Budget:
    """Return the budget. Raises UsageError naming what is accepted."""
    data = {
        k: int(v) if k in ("evaluations", "tokens") and v == int(v) else v
        for k, v in (limits or {}).items()
    }
    if any(v <= 0 for v in data.values()):
        raise UsageError(
            f"budget {limits}: a limit must be positive", "Leave out what should have no limit."
        )
    return _decoded(Budget, data, "budget", 'Example: budget={"evaluations": 40, "seconds": 600}.')


def _decoded(cls: type[T], data: Any, name: str, example: str) -> T:
    try:
        return from_json(cls, data)
    except CodecError as error:
        raise UsageError(
            f"{name}: {str(error).removeprefix(cls.__name__).lstrip('.: ')}", example
        ) from None


def parse_goal(text: str) -> Goal:
    """Return the goal. Raises UsageError naming what is accepted."""
    try:
        return Goal.parse(text)
    except ValueError as error:
        raise UsageError(str(error), 'Example: goal="speedup:2".') from None


def parse_target(text: str) -> str:
    """Return the target in its canonical spelling. Raises UsageError naming what is accepted."""
    try:
        return str(Target.parse(text))
    except ValueError as error:
        raise UsageError(str(error), "target_describe lists what works on this machine.") from None
