"""The fourteen tools over MCP, in both protocol eras."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from harness.types import CaseResult, Evaluation, EvaluationRequest, Task
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.synthesis import AskContext
from knowledge import Library
from knowledge.families import of_operators

from .conftest import TASK, data, kernel, make_server, open_session, refused, text

pytestmark = pytest.mark.anyio


async def test_the_whole_journey(client: Client) -> None:
    start = kernel(1.1)
    opened = await client.call_tool(
        "session_open", {"task_source": TASK, "start_source": start, "budget": {"evaluations": 9}}
    )
    session = data(opened)["session_id"]
    assert text(opened).startswith(f"Session {session} opened: scale on cpu in cpp")
    assert data(opened)["session"]["budget"]["evaluations"] == 9

    # one of several authors: a single one need not submit starts
    asked = await client.call_tool("session_next", {"session_id": session, "fresh": True})
    (ask,) = data(asked)["asks"]
    context = AskContext.parse(ask["context"], text(asked))
    assert (context.role, context.id) == ("start", "a1")
    assert "evaluates this start" in data(asked)["next"]
    submitted = await client.call_tool("kernel_submit", {"session_id": session, "ask_id": "a1"})
    assert (
        text(submitted)
        .splitlines()[0]
        .startswith("n1 is correct (e1): 1.1x [1.09, 1.11] over the strongest baseline")
    )
    assert submitted.content[-1].type == "resource_link"

    again = await client.call_tool("session_next", {"session_id": session, "ask_id": "a1"})
    assert "already answered by n1" in text(again)
    asked = await client.call_tool("session_next", {"session_id": session})
    ask_id = data(asked)["asks"][0]["context"]["id"]
    told = data(
        await client.call_tool(
            "kernel_submit",
            {
                "session_id": session,
                "source": kernel(1.8),
                "ask_id": ask_id,
                "parents": ["n1"],
                "hypothesis": "wider vectors",
                "predicted_speedup": 1.4,
            },
        )
    )
    assert (told["node_id"], told["status"], told["state"]) == ("n2", "correct", "done")
    assert told["result"]["new_best"]
    assert told["result"]["node"]["versus_parent"] == pytest.approx(1.8 / 1.1)

    skill = await client.call_tool(
        "skill_record",
        {"session_id": session, "node_id": "n2", "title": "Wider", "mechanism": "More lanes."},
    )
    assert data(skill)["skill"]["state"] == "proposed"
    ended = await client.call_tool("session_finish", {"session_id": session})
    assert text(ended).startswith(f"Session {session} finished: n2, ")
    assert data(ended)["package"]
    assert "held-out" not in text(ended)  # the task has none
    assert data(ended)["result"]["session"]["state"] == "finished"


async def test_kernels_outside_the_tree(client: Client) -> None:
    arguments = {"task_source": TASK, "source": kernel(status="incorrect")}
    compiled = await client.call_tool("kernel_compile", arguments)
    assert text(compiled).startswith("The kernel compiles (x1)")
    checked = await client.call_tool("kernel_check", arguments)
    assert data(checked)["status"] == "incorrect"
    assert text(checked).startswith("The kernel is incorrect (x2): ")
    assert "signal wrong.values" in text(checked)
    assert "knowledge_read" in text(checked)
    profiled = await client.call_tool("kernel_profile", {**arguments, "source": kernel(1.25)})
    assert data(profiled)["fitness"] == pytest.approx(1.25)
    assert data(profiled)["node_id"] == ""


async def test_an_opened_session_offers_a_file_to_fill_in(client: Client) -> None:
    """An agent has no shell of the server's: the answer names the call that shows the file."""
    task = (
        "# fake: name=add\nimport torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        "    def __init__(self, width):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.ones(width))\n\n"
        "    def forward(self, x, residual):\n        return (x + residual) * self.weight\n\n\n"
        "def get_inputs(): return []\n"
    )
    opened = await client.call_tool("session_open", {"task_source": task, "wait_s": 45})
    session = data(opened)["session_id"]
    call = f'tree_view(session_id={session!r}, section="template")'
    assert call in text(opened)
    shown = await client.call_tool("tree_view", {"session_id": session, "section": "template"})
    assert data(shown)["kind"] == "template"
    assert f"kernel_check(session_id={session!r}" in data(shown)["next"]
    source = text(shown).partition("\n")[2].rpartition("Next:")[0]
    compile(source, "template", "exec")
    assert "load_cpp" in source
    assert "def forward(self, x, residual)" in source
    assert "self.weight = nn.Parameter(torch.ones(width))" in source
    wrong = await client.call_tool(
        "tree_view", {"session_id": session, "node_id": "n1", "section": "template"}
    )
    assert "belongs to a session" in refused(wrong)["message"]


async def test_views_and_knowledge(client: Client) -> None:
    session = await open_session(client)
    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel()})
    tree = await client.call_tool("tree_view", {"session_id": session})
    assert data(tree)["kind"] == "tree"
    assert data(tree)["data"]["session"]["id"] == session
    assert "n1 1.5x" in text(tree)
    listed = await client.call_tool("tree_view", {})
    assert [s["id"] for s in data(listed)["data"]["sessions"]] == [session]
    source = await client.call_tool(
        "tree_view", {"session_id": session, "node_id": "n1", "section": "source"}
    )
    assert "speedup=1.5" in text(source)
    found = await client.call_tool(
        "knowledge_search", {"signals": ["not_vectorized"], "language": "cpp", "limit": 1}
    )
    page = data(found)["hits"][0]["id"]
    read = await client.call_tool("knowledge_read", {"page_id": page})
    assert text(read).startswith(f"{page}: ")
    machine = await client.call_tool("target_describe", {"target": "cpu"})
    assert text(machine).startswith("cpu can be measured here")
    assert [t["target"] for t in data(machine)["machine"]["targets"]] == ["cpu"]


async def test_policies_and_goals_are_read(client: Client) -> None:
    arguments = {
        "goal": "speedup:1.4",
        "policy": {"selection": "evolutionary", "library_calls": "allow"},
    }
    session = await open_session(client, **arguments)
    view = data(await client.call_tool("tree_view", {"session_id": session}))["data"]["session"]
    assert (view["selection"], view["goal"]) == ("evolutionary", "speedup:1.4")
    assert "library_calls=allow" in view["policy"]
    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel(1.5)})
    ended = await client.call_tool("session_next", {"session_id": session})
    assert data(ended)["ended"] == "goal_reached"
    assert "session_finish" in data(ended)["next"]
    word = await open_session(client, policy="evolutionary", new=True)
    assert word != session


async def test_long_answers_are_cut_with_a_way_to_the_rest(client: Client) -> None:
    session = await open_session(client)
    source = kernel() + "\n".join(f"# line {i} of a very long kernel" for i in range(4000))
    await client.call_tool("kernel_submit", {"session_id": session, "source": source})
    shown = await client.call_tool(
        "tree_view", {"session_id": session, "node_id": "n1", "section": "source"}
    )
    assert len(text(shown)) < 40_000
    assert f"cursor={data(shown)['next_cursor']}" in data(shown)["next"]
    asked = await client.call_tool("session_next", {"session_id": session})
    assert len(text(asked)) < 40_000


async def test_prompts_and_resources(client: Client) -> None:
    assert [p.name for p in (await client.list_prompts()).prompts] == [
        "optimize_kernel",
        "port_kernel",
    ]
    prompt = await client.get_prompt("optimize_kernel", {"task_path": "/tasks/x.py"})
    assert "/tasks/x.py" in prompt.messages[0].content.text  # type: ignore[union-attr]
    templates = {
        t.uri_template for t in (await client.list_resource_templates()).resource_templates
    }
    assert templates == {
        "kevolve://knowledge/{+page_id}",
        "kevolve://sessions/{session_id}/nodes/{node_id}/source",
        "kevolve://sessions/{session_id}/report",
    }
    session = await open_session(client)
    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel()})
    for uri, part in (
        ("kevolve://knowledge/index", "# Index"),
        ("kevolve://knowledge/guidance/vectorization", "# Vectorization"),
        (f"kevolve://sessions/{session}/nodes/n1/source", "class ModelNew"),
        (f"kevolve://sessions/{session}/report", f"# Session {session}"),
    ):
        assert part in (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]


async def test_held_out_cases_are_counted_where_there_are_any(client: Client) -> None:
    session = await open_session(client, task_source=TASK + "# fake: held_out=edge,odd\n")
    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel(1.8)})
    ended = await client.call_tool("session_finish", {"session_id": session})
    assert "[1.78, 1.82]; 2 held-out cases included." in text(ended)


class OpenClock(FakeExecutor):
    """Its judge's clock does not reproduce figures: a call may take twice as long as it seems."""

    async def evaluate(self, *arguments: Any, **named: Any) -> Evaluation:
        found = await super().evaluate(*arguments, **named)
        return replace(
            found,
            cases=tuple(
                replace(c, verdict="inconclusive", open_us=c.latency_us) for c in found.cases
            ),
        )


async def test_what_the_clock_leaves_open_makes_no_skill(tmp_path: Path) -> None:
    async with Client(make_server(tmp_path, OpenClock()), mode="auto") as client:
        session = await open_session(client)
        submitted = await client.call_tool(
            "kernel_submit", {"session_id": session, "source": kernel(1.8), "hypothesis": "h"}
        )
        node = data(submitted)["node_id"]
        refused = await client.call_tool(
            "skill_record",
            {"session_id": session, "node_id": node, "title": "T", "mechanism": "M."},
        )
        assert refused.is_error
        assert "error of the judge's clock" in text(refused)


async def test_pages_about_other_operators_than_the_task_s_are_not_named(client: Client) -> None:
    task = TASK.replace("name=scale", "name=scale\n# fake: operators=aten.mul.Tensor")
    source = kernel(signals="memory_bound,latency_bound")
    named = data(await client.call_tool("kernel_profile", {"task_source": task, "source": source}))[
        "result"
    ]["knowledge"]
    families = {page.id: set(page.families) for page in Library.builtin().pages()}
    fitting = set(of_operators(["aten.mul.Tensor"]))
    assert len(named) == 3
    assert all(not families[page] or families[page] & fitting for page in named)


async def test_the_room_that_accuracy_leaves_is_said(client: Client) -> None:
    told = text(await client.call_tool("kernel_check", {"task_source": TASK, "source": kernel()}))
    assert "; error " in told
    assert " of the norm, allowed " in told
    assert "the error may grow" in told


async def test_kernels_against_each_other(client: Client) -> None:
    session = await open_session(client)
    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel(1.5)})
    arguments = {"session_id": session, "source": kernel(1.8), "against": ["n1", kernel(1.2)]}
    compared = await client.call_tool("kernel_profile", arguments)
    assert text(compared).startswith(
        "kernel 1: 1.2x [1.19, 1.21] the speed of n1 (faster); 1.5x [1.49, 1.52] the speed of "
        "kernel 3"
    )
    assert data(compared)["result"]["duels"][0]["verdict"] == "faster"
    assert data(compared)["node_id"] == ""
    wrong = await client.call_tool(
        "kernel_profile", {**arguments, "against": [kernel(status="incorrect")]}
    )
    assert text(wrong).startswith("kernel 1 could not be compared: kernel 2 incorrect")
    assert (
        "n7"
        in refused(await client.call_tool("kernel_profile", {**arguments, "against": ["n7"]}))[
            "message"
        ]
    )


async def test_measuring_again(client: Client, executor: FakeExecutor) -> None:
    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(1.5)}
    await client.call_tool("kernel_submit", arguments)
    known = await client.call_tool("kernel_submit", arguments)
    assert "Answered from the store" in text(known)
    again = await client.call_tool("kernel_submit", {**arguments, "repeat": True})
    assert "Answered from the store" not in text(again)
    assert data(again)["node_id"] == "n1"
    more = await client.call_tool("kernel_profile", {**arguments, "effort": 4})
    assert executor.requests[-1].earlier.processes == 6
    low, high = data(more)["result"]["evaluation"]["interval"]
    assert high - low < 0.016


async def test_an_ablation_is_timed_and_is_no_result(client: Client) -> None:
    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(3.0, status="incorrect"), "ablation": True}
    found = await client.call_tool("kernel_profile", arguments)
    assert text(found).startswith("ABLATION, incorrect, not a result and not recorded (e1): ")
    assert "wrong, 33.33 us" in text(found)
    answer = data(found)
    assert (answer["fitness"], answer["node_id"], answer["result"]["evaluation"]["eligible"]) == (
        None,
        "",
        False,
    )
    assert [c["verdict"] for c in answer["result"]["evaluation"]["cases"]] == [None]
    told = data(
        await client.call_tool(
            "kernel_submit", {"session_id": session, "source": kernel(3.0, status="incorrect")}
        )
    )
    assert (told["status"], told["fitness"], told["result"]["cached"]) == ("incorrect", 0.0, False)
    crashed = await client.call_tool(
        "kernel_profile", {**arguments, "source": kernel(status="crashed")}
    )
    assert text(crashed).startswith("ABLATION, crashed")
    both = await client.call_tool("kernel_profile", {**arguments, "against": ["n1"]})
    assert "Only correct kernels" in refused(both)["hint"]


async def test_a_files_parameters_are_tuned_on_request(
    client: Client, executor: FakeExecutor
) -> None:
    session = await open_session(client)
    source = (
        kernel(1.5)
        + 'TUNABLES = {"BLOCK": [1, 2, 4], "UNROLL": [1, 2]}\nPARAMS = {"BLOCK": 1, "UNROLL": 1}\n'
    )
    arguments = {"session_id": session, "source": source}
    found = await client.call_tool("kernel_profile", {**arguments, "tune": 3})
    assert text(found).startswith("4 choices tried; the best by its lower bound is ")
    trials = data(found)["result"]["trials"]
    assert [t["fitness"] for t in trials] == sorted((t["fitness"] for t in trials), reverse=True)
    assert len({str(t["params"]) for t in trials}) == 4
    assert [t["params"] for t in trials if t["given"]] == [{"BLOCK": 1, "UNROLL": 1}]
    assert "BLOCK=4, UNROLL=2 | correct | " in text(found)
    whole = data(await client.call_tool("kernel_profile", {**arguments, "tune": 9}))
    assert len(whole["result"]["trials"]) == 6
    assert len(executor.requests) == 6  # what was tried answers from the store
    plain = await client.call_tool(
        "kernel_profile", {"session_id": session, "source": kernel(), "tune": 3}
    )
    assert "no TUNABLES" in refused(plain)["message"]
    assert (
        "1 to 64"
        in refused(await client.call_tool("kernel_profile", {**arguments, "tune": 65}))["hint"]
    )
    assert (
        "cannot be combined"
        in refused(
            await client.call_tool("kernel_profile", {**arguments, "tune": 3, "repeat": True})
        )["message"]
    )


class LuckySetting(FakeExecutor):
    """The figure of A=2 is the highest, and nearly nothing is known of it."""

    async def evaluate(
        self,
        task: Task,
        request: EvaluationRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> Evaluation:
        found = await super().evaluate(task, request, target, progress=progress)
        if request.candidate.params().get("A") != 2:
            return found
        cases = tuple(replace(c, speedup=9.0, interval=(0.9, 90.0)) for c in found.cases)
        return replace(found, cases=cases, fitness=9.0)


async def test_parameters_are_named_by_what_is_assured_of_them(tmp_path: Path) -> None:
    source = kernel(1.5) + 'TUNABLES = {"A": [1, 2]}\nPARAMS = {"A": 1}\n'
    async with Client(make_server(tmp_path, LuckySetting()), mode="auto") as client:
        session = await open_session(client)
        arguments = {"session_id": session, "source": source, "tune": 2}
        found = await client.call_tool("kernel_profile", arguments)
    assert [t["params"]["A"] for t in data(found)["result"]["trials"]] == [1, 2]
    assert text(found).startswith(
        "2 choices tried; the best by its lower bound is the file as it is: "
    )
    assert "write PARAMS" not in text(found)


async def test_a_comparison_is_not_repeated(client: Client, executor: FakeExecutor) -> None:
    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(1.5), "against": [kernel(1.2)]}
    error = refused(await client.call_tool("kernel_profile", {**arguments, "repeat": True}))
    assert error["message"] == "repeat and against were both given"
    assert "effort" in error["hint"]
    assert executor.compared == []


@pytest.mark.parametrize(
    "query", ["what does warm_us mean", "verdict inconclusive", "open_us", "naive_speedup"]
)
async def test_the_fields_of_a_verdict_are_found_in_one_place(client: Client, query: str) -> None:
    found = data(await client.call_tool("knowledge_search", {"query": query}))
    assert found["hits"][0]["id"] == "constraints/fields_of_a_verdict"


async def test_every_field_of_a_case_is_described(client: Client) -> None:
    page = {"page_id": "constraints/fields_of_a_verdict"}
    told = text(await client.call_tool("knowledge_read", page))
    names = {f.name for f in fields(CaseResult)}
    assert {name for name in names if f"| `{name}` |" not in told} == set()


async def test_what_waits_for_a_review_is_named_where_nothing_can_be_exported(
    client: Client,
) -> None:
    session = await open_session(client)
    given = {"session_id": session, "source": kernel(status="needs_review")}
    await client.call_tool("kernel_submit", given)
    answer = refused(await client.call_tool("session_finish", {"session_id": session}))
    assert "a person should review n1." in answer["message"]
    assert f"kevolve approve {session} n1" in answer["next"]
    # and whoever drafts anew knows of it
    asked = text(await client.call_tool("session_next", {"session_id": session}))
    assert "- n1: needs_review" in asked
