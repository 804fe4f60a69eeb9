"""The events of a run, as values. The driver emits them in order; listeners render, log or ignore
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from harness.types import Spent
from kevolve_mcp import api
from kevolve_mcp.actions import Action

from .answers import NOTHING_SPENT, Told
from .device_use import NOTHING_USED, DeviceUse


@dataclass(frozen=True)
class SessionOpened:
    """The session's id is known. resumed: it was there before this run."""

    session: api.Session
    resumed: bool = False


@dataclass(frozen=True)
class Baseline:
    """The baselines of each case, as screened when the task was opened."""

    cases: tuple[api.TaskCase, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Working:
    """Progress of one slow call. fraction: the part of the call that is done, 0 to 1."""

    stage: str
    message: str
    fraction: float = 0.0


@dataclass(frozen=True)
class NodeEvaluated:
    """A node was inserted. nodes: the number that this run has added."""

    told: Told
    nodes: int


@dataclass(frozen=True)
class SkillsLearned:
    """One sentence on what the last node showed."""

    node: str
    text: str


@dataclass(frozen=True)
class BestImproved:
    node: api.Node
    previous: api.Node | None = None


@dataclass(frozen=True)
class Remark:
    """Something a reader should know: an author's error, a restarted server, an ask read again."""

    text: str
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Terminated:
    """The search is over; re-validation begins. reason: the termination rule, or "author
    exhausted"; detail: a sentence; use: how the search used the device."""

    reason: str
    detail: str = ""
    spent: Spent = NOTHING_SPENT
    use: DeviceUse = NOTHING_USED


@dataclass(frozen=True)
class SearchFinished:
    ending: api.Finished


@dataclass(frozen=True)
class PackageExported:
    """package: absolute path of the folder on the server's machine."""

    package: str
    skills: tuple[api.Skill, ...] = ()


Event: TypeAlias = (
    SessionOpened
    | Baseline
    | Working
    | NodeEvaluated
    | SkillsLearned
    | BestImproved
    | Remark
    | Terminated
    | SearchFinished
    | PackageExported
)
