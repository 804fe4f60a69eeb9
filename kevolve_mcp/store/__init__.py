"""What survives a process: sessions with their trees, evaluations, jobs and skills in SQL, and
texts by content hash.

`Store.open(home)` is the entry point; the docstring of `Store` is the contract. Importing this
package loads no database library; a module is loaded when one of its names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .records import (
        Approval,
        BudgetPlace,
        Demand,
        JobRecord,
        JobState,
        Measured,
        Measuring,
        NewAsk,
        NewNode,
        NewSession,
        NewSkill,
        Owner,
        SessionRecord,
        SessionState,
        SessionSummary,
        SimilarKernel,
        SkillEvent,
        SkillEvidence,
        SkillOutcome,
        SkillRecord,
        SkillState,
        SkillUse,
        SkillUseKind,
        StoredEvaluation,
    )
    from .remembered import NodeDuel, PastBudget, SessionOptions, SessionOutcome, SimilarFound
    from .store import Store
    from .taught import taught_something

__all__ = [
    "Approval",
    "BudgetPlace",
    "Demand",
    "JobRecord",
    "JobState",
    "Measured",
    "Measuring",
    "NewAsk",
    "NewNode",
    "NewSession",
    "NewSkill",
    "NodeDuel",
    "Owner",
    "PastBudget",
    "SessionOptions",
    "SessionOutcome",
    "SessionRecord",
    "SessionState",
    "SessionSummary",
    "SimilarFound",
    "SimilarKernel",
    "SkillEvent",
    "SkillEvidence",
    "SkillOutcome",
    "SkillRecord",
    "SkillState",
    "SkillUse",
    "SkillUseKind",
    "Store",
    "StoredEvaluation",
    "taught_something",
]

__getattr__ = loader(
    __name__,
    {
        "records": (
            "Approval",
            "Demand",
            "JobRecord",
            "JobState",
            "Measured",
            "Measuring",
            "NewAsk",
            "NewNode",
            "NewSession",
            "NewSkill",
            "Owner",
            "BudgetPlace",
            "SessionRecord",
            "SessionState",
            "SessionSummary",
            "SimilarKernel",
            "SkillEvent",
            "SkillEvidence",
            "SkillOutcome",
            "SkillRecord",
            "SkillState",
            "SkillUse",
            "SkillUseKind",
            "StoredEvaluation",
        ),
        "remembered": (
            "NodeDuel",
            "PastBudget",
            "SessionOptions",
            "SessionOutcome",
            "SimilarFound",
        ),
        "store": ("Store",),
        "taught": ("taught_something",),
    },
)
