"""What may be done next: a value, which each surface has words for."""

from __future__ import annotations

from typing import get_args

import pytest

from kevolve_mcp.actions import Action, Setting, Verb, read_actions, sentences
from kevolve_mcp.cli.calls import command
from kevolve_mcp.server.calls import call
from kevolve_mcp.server.tools import described

VERBS = get_args(Verb)
SETTINGS = get_args(Setting)
EVERY = [Action(verb) for verb in VERBS if verb != "give"] + [
    Action("give", setting=setting) for setting in SETTINGS
]


@pytest.mark.parametrize("action", EVERY, ids=lambda a: f"{a.verb} {a.setting}".strip())
def test_either_surface_can_say_every_action(action: Action) -> None:
    said = (call(action), command(action))
    assert all(isinstance(text, str) for text in said)
    assert any(said) or action.setting in ("", "task", "kernel")


@pytest.mark.parametrize("action", EVERY, ids=lambda a: f"{a.verb} {a.setting}".strip())
def test_a_command_names_no_tool(action: Action) -> None:
    assert not [tool.name for tool in described() if tool.name in command(action)]


def test_the_tools_say_a_call_with_what_is_known() -> None:
    assert call(Action("view", session="s-1", node="n3", section="log")) == (
        "tree_view(session_id='s-1', node_id='n3', section='log')"
    )
    assert call(Action("next_ask")) == "session_next(session_id=...)"
    assert "target='cuda:sm_90'" in call(Action("compile", target="cuda:sm_90"))


def test_the_command_line_says_a_command_that_can_be_copied() -> None:
    assert command(Action("view", session="s-1")) == "`kevolve tree s-1`"
    assert command(Action("view", session="s-1", node="n3")) == "`kevolve show s-1 n3`"
    assert command(Action("view", session="s-1", evaluation="e4", section="log")) == (
        "`kevolve show s-1 e4 --section log`"
    )
    assert command(Action("view", evaluation="x4")) == "`kevolve show x4`"
    assert command(Action("view", session="a b", node="n2", other="n1")) == (
        "`kevolve diff 'a b' n2 n1`"
    )
    assert command(Action("give", setting="author", value="openai:MODEL")) == (
        "`--author openai:MODEL`"
    )


def test_a_surface_leaves_out_what_it_does_not_have() -> None:
    actions = (Action("next_ask", session="s"), Action("discard", "closes it", session="s"))
    assert sentences(actions, call) == (
        "session_next(session_id='s'); session_finish(session_id='s', discard=true) closes it"
    )
    assert sentences(actions, command) == "`kevolve optimize --resume s`"


def test_actions_cross_as_json_and_unknown_ones_are_left_out() -> None:
    actions = (Action("view", "shows it", evaluation="e3"), Action("give", setting="start"))
    assert read_actions([action.as_json() for action in actions]) == actions
    newer = [
        {"verb": "teleport"},
        {"verb": "give", "setting": "colour"},
        "view",
        {"verb": "wait", "x": 1, "session": ["s"], "cursor": "9"},
    ]
    assert read_actions(newer) == (Action("wait"),)
    assert read_actions(None) == ()
