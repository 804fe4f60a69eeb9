"""The types that cross between processes and floors: frozen dataclasses, JSON in and out, standard library only."""

from .candidate import Candidate, CandidateError, Params, ParamValue, Tunables
from .codec import CodecError, from_json, to_json
from .environment import (
    ISOLATION_LEVELS,
    TASK_ISOLATION,
    Ceilings,
    Device,
    Environment,
    Interpreter,
    IsolationLevel,
    MachineReport,
)
from .evaluation import (
    PROTOCOL_VERSION,
    STAGES,
    AllCores,
    CaseResult,
    Evaluation,
    EvaluationRequest,
    Purpose,
    Stage,
    StageReport,
    Status,
    Verdict,
    evaluation_key,
    fitness,
    promotable,
)
from .goal import Budget, Goal, GoalKind, Spent
from .policy import Policy
from .signal import VOCABULARY, Signal
from .target import Mode, Target, TargetReport
from .task import Case, Operator, Task, TensorSpec, task_digest

__all__ = [
    "ISOLATION_LEVELS",
    "PROTOCOL_VERSION",
    "STAGES",
    "TASK_ISOLATION",
    "VOCABULARY",
    "AllCores",
    "Budget",
    "Candidate",
    "CandidateError",
    "Case",
    "CaseResult",
    "Ceilings",
    "CodecError",
    "Device",
    "Environment",
    "Evaluation",
    "EvaluationRequest",
    "Goal",
    "GoalKind",
    "Interpreter",
    "IsolationLevel",
    "MachineReport",
    "Mode",
    "Operator",
    "ParamValue",
    "Params",
    "Policy",
    "Purpose",
    "Signal",
    "Spent",
    "Stage",
    "StageReport",
    "Status",
    "Target",
    "TargetReport",
    "Task",
    "TensorSpec",
    "Tunables",
    "Verdict",
    "evaluation_key",
    "fitness",
    "from_json",
    "promotable",
    "task_digest",
    "to_json",
]
