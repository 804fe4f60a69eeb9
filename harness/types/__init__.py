"""The types that cross between processes and floors: frozen dataclasses, JSON in and out, standard
library only."""

from .candidate import Candidate, CandidateError, Params, ParamValue, Tunables
from .codec import CodecError, from_json, to_json
from .comparison import MOST_COMPARED, CaseDuel, ComparisonRequest, Duel, HeadToHead
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
    MOST_EFFORT,
    PROTOCOL_VERSION,
    STAGES,
    AllCores,
    CaseResult,
    Evaluation,
    EvaluationRequest,
    Purpose,
    Samples,
    Stage,
    StageReport,
    Status,
    Verdict,
    eligible,
    evaluation_key,
    fitness,
)
from .goal import Budget, Goal, GoalKind, Spent
from .policy import Policy
from .signal import VOCABULARY, Signal
from .target import Mode, Target, TargetReport
from .task import Case, Operator, Task, TensorSpec, task_digest

__all__ = [
    "ISOLATION_LEVELS",
    "MOST_COMPARED",
    "MOST_EFFORT",
    "PROTOCOL_VERSION",
    "STAGES",
    "TASK_ISOLATION",
    "VOCABULARY",
    "AllCores",
    "Budget",
    "Candidate",
    "CandidateError",
    "Case",
    "CaseDuel",
    "CaseResult",
    "Ceilings",
    "CodecError",
    "ComparisonRequest",
    "Device",
    "Duel",
    "Environment",
    "Evaluation",
    "EvaluationRequest",
    "Goal",
    "GoalKind",
    "HeadToHead",
    "Interpreter",
    "IsolationLevel",
    "MachineReport",
    "Mode",
    "Operator",
    "ParamValue",
    "Params",
    "Policy",
    "Purpose",
    "Samples",
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
    "eligible",
    "evaluation_key",
    "fitness",
    "from_json",
    "task_digest",
    "to_json",
]
