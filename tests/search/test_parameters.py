"""What parameter search tries next, within which part of the budget, and what it tells."""

from __future__ import annotations

from typing import Any

from harness.types import Budget, Spent
from kevolve_mcp.search import Node, affordable, next_to_tune, searched
from kevolve_mcp.search.parameters import SETTINGS
from kevolve_mcp.search.provenance import PARAMETER_SEARCH

from .build import ask, node, tree

CHOICES = {"A": list(range(20))}


def written(number: int, fitness: float, structure: str = "s", **more: Any) -> Node:
    return node(
        number, fitness, structure=structure, tunables=CHOICES, params={"A": number}, **more
    )


def tried(number: int, fitness: float, parent: int, **more: Any) -> Node:
    return node(
        number,
        fitness,
        parent,
        structure="s",
        tunables=CHOICES,
        params={"A": number},
        role="tune",
        author=PARAMETER_SEARCH,
        **more,
    )


def test_the_best_structure_that_has_settings_left_is_next() -> None:
    assert next_to_tune(tree()) is None
    assert next_to_tune(tree(node(1, 2.0))) is None
    one, other, slow = written(1, 1.5), written(2, 1.8, "t"), written(3, 0.5, "u")
    assert next_to_tune(tree(one, other, slow)) == other
    assert next_to_tune(tree(slow, node(4, 1.9))) is None  # far behind
    assert next_to_tune(tree(written(1, 0.0))) is None  # not correct
    faster = tried(3, 1.7, 1)
    assert next_to_tune(tree(one, faster)) == faster
    enough = [tried(2 + n, 1.2, 1) for n in range(SETTINGS)]
    assert next_to_tune(tree(one, *enough)) is None
    fixed = node(1, 1.5, tunables={"A": [1]}, params={"A": 1}, structure="v")
    assert next_to_tune(tree(fixed)) is None


def test_it_keeps_to_its_share_of_each_limit() -> None:
    had = [tried(2, 1.6, 1, seconds=5.0, device_seconds=2.0)]
    spent = Spent(evaluations=2, seconds=20.0, device_seconds=4.0)

    def fits(share: float = 0.2, *asks: Any, **limits: Any) -> bool:
        return affordable(had, share, Budget(**limits), spent, asks)

    assert fits()
    assert not fits(0.0)
    assert fits(evaluations=10)
    assert not fits(evaluations=9)  # two are more than a fifth
    assert fits(seconds=26.0)
    assert not fits(seconds=25.0)
    assert fits(device_seconds=11.0)
    assert not fits(device_seconds=10.0)
    assert not fits(1.0, evaluations=2)  # all is spent
    assert not fits(1.0, ask(1), evaluations=3)  # and what is left belongs to the ask


def test_what_was_found_names_node_settings_and_the_best() -> None:
    good, better, wrong = tried(2, 1.6, 1), tried(3, 1.7, 2), tried(4, 0.0, 3)
    (found,) = searched(tree(written(1, 1.5), good, better, wrong))
    assert (found.node.id, found.settings, found.best) == ("n1", 3, better)
    (found,) = searched(tree(written(1, 1.5), tried(2, 0.0, 1)))
    assert found.best is None
    assert searched(tree(written(1, 1.5))) == ()
