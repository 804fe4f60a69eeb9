"""Runs one agent program on one task, and records what came of it.

    python -m benchmarks.agents.run TASK RUN --agent scripted [--without-server]
        [--seconds 1800] [--calls 200] [--target cpu] [--code CHECKOUT] [--confirm 4]

RUN: a folder that does not exist yet. --agent: a name in agents.toml. --code: another checkout of
this project, whose server is tried; judging is this one's. The agent is ended when its time is over
and two more minutes have passed, in which it may finish. What it leaves is judged (see judge.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import tomllib

from benchmarks.agents import judge, versions
from benchmarks.agents import plan as plans
from benchmarks.agents.plan import Plan

AGENTS = Path(__file__).with_name("agents.toml")
GRACE_S = 120.0


def command(run: Path, plan: Plan) -> list[str]:
    """The agent's program, its template filled in. Raises SystemExit where there is none."""
    known = tomllib.loads(AGENTS.read_text())
    if plan.agent not in known:
        raise SystemExit(f"agents.toml has no {plan.agent!r}; it has {', '.join(known)}")
    template = known[plan.agent]
    arm = "with_server" if plan.with_server else "without_server"
    if arm not in template:
        raise SystemExit(f"{plan.agent} in agents.toml has no command {arm}")
    server, *arguments = plans.proxy(run)
    values = {
        "prompt": (run / "work" / "BRIEF.md").read_text(),
        "run": str(run),
        "work": str(run / "work"),
        "python": sys.executable,
        "server": server,
        "arguments": json.dumps(arguments),
        "mcp_config": str(run / "mcp.json"),
    }
    # by name and not by str.format: templates hold braces of JSON and TOML
    found = []
    for word in template[arm]:
        for name, value in values.items():
            word = value if word == f"{{{name}}}" else word.replace(f"{{{name}}}", value)
        found.append(word)
    return found


def execute(run: Path, plan: Plan) -> None:
    """The agent until it ends or its time is over, with all that it started."""
    server, *arguments = plans.proxy(run)
    config = {"mcpServers": {"kevolve": {"command": server, "args": arguments}}}
    (run / "mcp.json").write_text(json.dumps(config, indent=1) + "\n")
    words = command(run, plan)
    print(f"running: {shlex.join(words)[:300]}", flush=True)
    with (run / "said.txt").open("w") as said, versions.kept(run, plan):
        agent = subprocess.Popen(
            words,
            cwd=run / "work",
            env=plans.environment(run),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            agent.wait(plan.until + GRACE_S - time.time())
        except subprocess.TimeoutExpired:
            said.write("\n[ended: its time was over]\n")
            os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
    note_end(run, agent.returncode)


def note_end(run: Path, code: int) -> None:
    (run / "ended.json").write_text(json.dumps({"at": time.time(), "exit_code": code}) + "\n")


def parser() -> argparse.ArgumentParser:
    """What `run` and `serve` share."""
    made = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("task")
    made.add_argument("run", type=Path)
    made.add_argument("--without-server", action="store_true")
    made.add_argument("--seconds", type=float, default=1800.0)
    made.add_argument("--calls", type=int, default=200)
    made.add_argument("--target", choices=tuple(plans.FOLDERS), default="cpu")
    made.add_argument("--code", type=Path, default=plans.ROOT)
    return made


def agreed(given: argparse.Namespace, agent: str) -> tuple[Path, Plan]:
    run = given.run.absolute()
    wanted = Plan(
        given.task,
        agent,
        given.target,
        not given.without_server,
        given.seconds,
        given.calls,
    )
    return run, plans.lay(run, wanted, given.code.absolute())


def main() -> None:
    made = parser()
    made.description = __doc__
    made.add_argument("--agent", default="scripted")
    made.add_argument("--confirm", type=int, default=judge.CONFIRM)
    given = made.parse_args()
    run, plan = agreed(given, given.agent)
    execute(run, plan)
    judge.finish(run, given.confirm)


if __name__ == "__main__":
    main()
