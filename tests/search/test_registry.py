from importlib.metadata import EntryPoint

import pytest

from kevolve_mcp.search import SelectionPolicy, create_policy, policy_names
from kevolve_mcp.search.policies import GROUP, FakePolicy, Greedy, registry


@pytest.fixture
def installed(monkeypatch):
    """Pretend that packages offer these entry points."""

    def offer(**values):
        found = [EntryPoint(name.rstrip("_"), value, GROUP) for name, value in values.items()]
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [e for e in found if e.group == group]
        )

    return offer


def test_built_in_policies_by_name_with_options():
    assert policy_names()[:3] == ("greedy", "evolutionary", "mcts")
    assert create_policy() == Greedy()
    assert create_policy("greedy", drafts=2) == Greedy(drafts=2)
    assert all(create_policy(name).name == name for name in policy_names()[:3])
    assert "fake" not in policy_names()
    assert isinstance(create_policy("fake"), FakePolicy)


def test_mistakes_say_what_is_accepted():
    with pytest.raises(ValueError, match="available: greedy, evolutionary, mcts"):
        create_policy("beam")
    with pytest.raises(ValueError, match="temprature"):
        create_policy("evolutionary", temprature=1)
    with pytest.raises(ValueError, match="drafts must be a whole number"):
        create_policy("greedy", drafts="many")


def test_third_parties_add_policies_but_cannot_take_names_over(installed):
    installed(
        mine="kevolve_mcp.search.policies.base:FakePolicy",
        greedy="kevolve_mcp.search.policies.base:FakePolicy",
    )
    assert policy_names() == ("greedy", "evolutionary", "mcts", "mine")
    assert isinstance(create_policy("mine"), SelectionPolicy)
    assert isinstance(create_policy("greedy"), Greedy)


def test_broken_entry_points_are_named(installed):
    installed(gone="no_such_module_anywhere:Policy", odd="builtins:dict", twice="a:X", twice_="b:Y")
    with pytest.raises(ValueError, match="cannot be loaded"):
        create_policy("gone")
    with pytest.raises(ValueError, match="not a SelectionPolicy"):
        create_policy("odd")
    with pytest.raises(ValueError, match="several installed packages"):
        create_policy("twice")
