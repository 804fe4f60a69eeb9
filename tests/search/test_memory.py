import pytest
from hypothesis import given
from hypothesis import strategies as st

from kevolve_mcp.search import Expansion, decide, history
from kevolve_mcp.search.provenance import PARAMETER_SEARCH

from .build import ask, node, situations, tree

# n1 ── n2 ── n4 ── (the next child)      n3, n5, n7 failed
#  └─ n3  └─ n5  ├─ n6
#                └─ n7
MADE = tree(
    node(1),
    node(2, 1.2, 1),
    node(3, 0.0, 1),
    node(4, 1.4, 2),
    node(5, 0.0, 2),
    node(6, 1.3, 4),
    node(7, 0.0, 4),
    node(8, 0.0),
)


@pytest.mark.parametrize(
    ("memory", "trajectory", "siblings", "failures"),
    [
        ("none", "", "", ""),
        ("parent", "n1 n2 n4", "", "n3 n5 n7"),
        ("siblings", "", "n6 n7", "n7"),
        ("both", "n1 n2 n4", "n6 n7", "n3 n5 n7"),
    ],
)
def test_what_each_operator_shows(memory, trajectory, siblings, failures):
    seen = history(MADE, Expansion(("n4",), memory, "improve"))
    assert (" ".join(seen.trajectory), " ".join(seen.siblings), " ".join(seen.failures)) == (
        trajectory,
        siblings,
        failures,
    )
    assert set(seen.shown) == set(f"{trajectory} {siblings} {failures}".split())


def test_what_is_not_shown_in_full_is_told_of_elsewhere():
    roots = tree(node(1, 0.0), node(2, 1.3), node(3, 2.0), node(4, 0.0, status="crashed"))
    seen = history(roots, Expansion(("n3",), "parent", "improve"))
    assert (seen.shown, seen.elsewhere) == (("n3",), ("n1", "n2", "n4"))
    # a draft is to be of another kind; a start is handed in as it is
    seen = history(roots, Expansion((), "none", "draft"))
    assert (seen.shown, seen.elsewhere) == ((), ("n1", "n2", "n3", "n4"))
    assert history(roots, Expansion((), "none", "start")).elsewhere == ()
    # of each lineage the best, and no setting that nobody wrote
    made = tree(
        node(1, 1.0),
        node(2, 2.0, 1),
        node(3, 1.5, 1),
        node(4, 1.8, interval=(1.4, 2.2)),
        node(5, 1.7, 4, interval=(1.6, 1.8)),
        node(6, 0.0, 5),
        node(7, 1.9, 2, role="tune", author=PARAMETER_SEARCH),
        node(8, 0.0, 4, role="tune", author=PARAMETER_SEARCH),
    )
    seen = history(made, Expansion(("n2",), "parent", "improve"))
    assert (seen.shown, seen.elsewhere) == (("n1", "n2"), ("n3", "n5", "n6"))
    seen = history(made, Expansion(("n2",), "siblings", "improve"))
    assert (seen.shown, seen.elsewhere) == (("n7",), ("n3", "n5", "n6"))


def test_a_crossover_sees_both_ways_and_other_roots_are_siblings():
    made = tree(node(1), node(2, 1.2, 1), node(3, 1.1), node(4, 1.3, 3))
    assert history(made, Expansion(("n2", "n4"), "parent", "crossover")).trajectory == (
        "n1",
        "n2",
        "n3",
        "n4",
    )
    mixed = history(MADE, Expansion(("n2", "n4"), "both", "crossover"))
    assert (mixed.trajectory, mixed.siblings) == (("n1", "n2", "n4"), ("n5", "n6", "n7"))
    assert history(MADE, Expansion((), "siblings", "draft")).siblings == ("n1", "n8")
    with pytest.raises(KeyError):
        history(made, Expansion(("n9",), "none", "improve"))


@given(situations, st.data())
def test_history_shows_known_nodes_once_and_keeps_their_failures(situation, data):
    made, _ = situation
    parents = (
        tuple(
            data.draw(
                st.lists(st.sampled_from([n.id for n in made.nodes]), max_size=2, unique=True)
            )
        )
        if made.nodes
        else ()
    )
    memory = data.draw(st.sampled_from(["none", "parent", "siblings", "both"]))
    seen = history(made, Expansion(parents, memory, "improve"))
    assert set(seen.shown) | set(seen.elsewhere) <= set(made.by_id)
    assert not set(seen.shown) & set(seen.elsewhere)
    assert not set(seen.trajectory) & set(seen.siblings)
    assert all(made.by_id[i].failed for i in seen.failures)
    assert {i for i in (*seen.trajectory, *seen.siblings) if made.by_id[i].failed} <= set(
        seen.failures
    )
    assert memory not in ("parent", "both") or set(parents) <= set(seen.trajectory)


def test_the_role_decides_while_the_search_moves():
    assert decide(MADE, (), "draft") == "none"
    assert decide(MADE, ("n6",), "improve") == "parent"
    assert decide(MADE, ("n4",), "improve") == "both"
    assert decide(MADE, ("n7",), "repair") == "parent"
    assert decide(MADE, ("n4",), "tune") == "siblings"
    assert decide(MADE, ("n4", "n6"), "crossover") == "parent"


def test_a_stall_brings_clean_slates_in_turn_and_open_asks_move_the_turn():
    turns = [decide(MADE, ("n4",), "improve", stalled_for=s, patience=3) for s in range(2, 7)]
    assert turns == ["both", "none", "siblings", "both", "none"]
    waiting = (ask(1, "improve", 4),)
    assert (
        decide(MADE, ("n4",), "improve", stalled_for=3, open_asks=waiting, patience=3) == "siblings"
    )
    assert decide(MADE, ("n7",), "repair", stalled_for=3, patience=3) == "parent"
