"""Whole searches on a synthetic landscape: do the policies search, and do they survive being
killed?"""

from functools import cache
from statistics import mean

import pytest

from kevolve_mcp.search import Expansion, SelectionPolicy, Tree, ask_random, create_policy
from kevolve_mcp.search.testing import as_asks

from .landscape import search, stored

NAMES = ("greedy", "evolutionary", "mcts")
SEEDS = range(20)


class Drafts(SelectionPolicy):
    """Independent samples for ever: what a policy has to beat."""

    name = "drafts"

    def select(self, tree, open_asks, rng, spent, n):
        return [Expansion((), "none", "draft")] * n


@cache
def found(name, workers):
    """The mean of the best F after 50 evaluations."""
    policy = Drafts() if name == "random" else create_policy(name)
    trees = [search(policy, seed, 50, workers)[0] for seed in SEEDS]
    return mean(best.score if (best := t.best()) else 0.0 for t in trees)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_every_policy_beats_independent_samples(name, workers):
    assert found(name, workers) > 1.15 * found("random", workers)


@pytest.mark.parametrize("name", NAMES)
def test_all_moves_are_used(name):
    roles = {n.role for seed in range(4) for n in search(create_policy(name), seed, 80)[0].nodes}
    assert roles == {"draft", "improve", "repair", "tune", "crossover"}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_search_selects_what_the_uninterrupted_one_did(name, workers):
    whole, moments = search(create_policy(name), 7, 40, workers)
    kept = stored(whole)
    assert kept == whole
    for moment in moments:
        nodes, asks = len(moment.tree.nodes), len(moment.tree.asks)
        part = Tree(kept.nodes[:nodes], kept.asks[:asks])
        open_asks = [a for a in part.asks if a.seq not in part.answered()]
        assert tuple(open_asks) == moment.open_asks
        chosen = create_policy(name).select(
            part, open_asks, ask_random(7, asks + 1), moment.spent, len(moment.selected)
        )
        assert as_asks(chosen, asks + 1) == moment.selected


@pytest.mark.parametrize("name", NAMES)
def test_searches_differ_by_seed_alone(name):
    first, _ = search(create_policy(name), 1, 30)
    again, _ = search(create_policy(name), 1, 30)
    other, _ = search(create_policy(name), 2, 30)
    assert first == again
    assert first != other
