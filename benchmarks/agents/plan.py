"""One run of one agent on one task: what was agreed on, and the folder in which it happens.

The folder holds `plan.json` (this plan), `work/` (the agent's folder), `home/` (the server's),
`transcript.jsonl`, `versions/` (what stood in `work/kernel.py`, by second), `said.txt` (what the
agent said), and later `judged.json` and `record.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"cpu": Path(__file__).parent / "tasks", "cuda": Path(__file__).parent / "cuda"}
LANGUAGES = {"cpu": "cpp", "cuda": "cuda"}
KERNEL = "kernel.py"
PASSED_ON = ("KEVOLVE_CACHE", "KEVOLVE_PYTHON", "KEVOLVE_TIMING_EFFORT")
SERVER = ("-P", "-m", "kevolve_mcp.cli.serve")


@dataclass(frozen=True)
class Plan:
    """task: its name, of `task_names`. with_server: whether the agent gets the tools. seconds,
    calls: its budget, wall clock and calls of tools. server: the command that starts the server,
    with `environment` added. began: seconds of the epoch."""

    task: str
    agent: str
    target: str = "cpu"
    with_server: bool = True
    seconds: float = 1800.0
    calls: int = 200
    server: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    began: float = 0.0

    @property
    def source(self) -> Path:
        """The folder of the task in this benchmark, with its held-out shapes."""
        return FOLDERS[self.target] / self.task

    @property
    def language(self) -> str:
        return LANGUAGES[self.target]

    @property
    def until(self) -> float:
        """Seconds of the epoch."""
        return self.began + self.seconds


def task_names(target: str) -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in FOLDERS[target].glob("*/task.py")))


def lay(run: Path, plan: Plan, code: Path = ROOT) -> Plan:
    """Make the folder of a run and start its clock. code: the checkout whose server is tried.
    Raises SystemExit where the task is unknown, or the folder holds a run."""
    if plan.task not in task_names(plan.target):
        known = ", ".join(task_names(plan.target))
        raise SystemExit(f"there is no task {plan.task!r} for {plan.target}; there are {known}")
    if (run / "plan.json").exists():
        raise SystemExit(f"{run} holds a run: name another folder, or remove this one")
    work = run / "work"
    work.mkdir(parents=True)
    (run / "versions").mkdir()
    shutil.copy(plan.source / "task.py", task_file(run, plan))
    for start in plan.source.glob("start*.py"):
        shutil.copy(start, work / start.name)
    command = plan.server or (sys.executable, *SERVER, "--home", str(run / "home"))
    plan = replace(
        plan,
        server=command,
        environment={**_passed_on(), "PYTHONPATH": str(code), **plan.environment},
        began=time.time(),
    )
    (run / "plan.json").write_text(json.dumps(asdict(plan), indent=1) + "\n")
    (work / "BRIEF.md").write_text(brief(run, plan))
    return plan


def _passed_on() -> dict[str, str]:
    """Some clients give their servers hardly any environment. The home is the run's own, its
    database as well."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {
        "KEVOLVE_DATABASE": ""
    }


def task_file(run: Path, plan: Plan) -> Path:
    """The agent's copy. Sessions are named after it; `task_` makes start.py the start beside it."""
    return run / "work" / f"task_{plan.task}.py"


def load(run: Path) -> Plan:
    """Raises SystemExit where the folder holds no run."""
    try:
        data = json.loads((run / "plan.json").read_text())
    except FileNotFoundError:
        raise SystemExit(f"{run} holds no run: `serve` or `run` makes one") from None
    return Plan(**{**data, "server": tuple(data["server"])})


def proxy(run: Path) -> tuple[str, ...]:
    """The command that an MCP client starts as its server."""
    return (sys.executable, str(Path(__file__).with_name("proxy.py")), str(run))


def brief(run: Path, plan: Plan) -> str:
    """What the agent is told. Both kinds of run end with one kernel, which is judged the same
    way."""
    work, budget = run / "work", f"{plan.seconds / 60:.0f} minutes"
    device = "this machine's CPU, one thread" if plan.target == "cpu" else "this machine's GPU"
    lines = [
        f"Make the operator in {task_file(run, plan)} as fast as you can on {device}.",
        "",
        f"Write your best kernel to {work / KERNEL}: one Python file with class ModelNew, the same",
        "constructor and forward as the task's Model, the computation in native code of your own",
        f"({_native(plan)}); {work} has a plain one to start from. Keep that file correct and",
        "up to date: it is judged in the end on inputs and shapes that you do not see, against the",
        "strongest of eager and compiled PyTorch. Do not read the evaluator's own files.",
        f"The interpreter is {sys.executable}; PYTHONPATH={ROOT} lets it import harness.",
        "",
    ]
    if plan.with_server:
        lines += [
            f"Use the MCP server kevolve: session_open(task_path={str(task_file(run, plan))!r}, "
            f"target={plan.target!r}, language={plan.language!r}) begins, session_finish ends.",
            f"You have {budget} and {plan.calls} calls of its tools.",
        ]
    else:
        lines += [f"You have a shell and {budget}."]
    return "\n".join([*lines, "In the end say what you reached, and what helped or hindered.", ""])


def _native(plan: Plan) -> str:
    name = "load_cpp" if plan.target == "cpu" else "load_cuda"
    return f"C++ through `from harness.native import {name}`"


def environment(run: Path) -> dict[str, str]:
    """Of programs that belong to a run: they find this checkout's packages."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "KEVOLVE_RUN": str(run)}
