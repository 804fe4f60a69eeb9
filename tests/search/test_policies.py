"""Every policy against the contract, and what each of them promises beyond it."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.types import Spent
from kevolve_mcp.search import Meeting, Tree, ask_random
from kevolve_mcp.search.policies import Evolutionary, FakePolicy, Greedy, TreeSearch, moves
from kevolve_mcp.search.testing import PolicyConformance, as_asks, unmet

from .build import ask, node, situations, tree

POLICIES = [
    Greedy(),
    Evolutionary(),
    Evolutionary(islands=4, brood=1, migrate_every=1),
    TreeSearch(),
    FakePolicy(),
]
SEARCHING = [Greedy(), Evolutionary(islands=1), TreeSearch()]


class TestGreedy(PolicyConformance):
    def policy(self):
        return Greedy()


class TestEvolutionary(PolicyConformance):
    def policy(self):
        return Evolutionary(islands=3)


class TestTreeSearch(PolicyConformance):
    def policy(self):
        return TreeSearch()


class TestFake(PolicyConformance):
    def policy(self):
        return FakePolicy()


def select(policy, made, open_asks=(), n=1, seed=0):
    return policy.select(made, open_asks, ask_random(seed, len(made.asks) + 1), Spent(), n)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
@given(situation=situations, n=st.integers(1, 6), seed=st.integers(0, 99))
def test_answers_fit_any_tree_and_fewer_are_a_prefix_of_more(policy, situation, n, seed):
    made, open_asks = situation
    chosen = select(policy, made, open_asks, n, seed)
    assert len(chosen) == n
    assert not unmet(made, open_asks, chosen, n)
    assert select(policy, made, open_asks, 1, seed) == chosen[:1]
    steps = [(e.parents, e.memory, e.role) for e in chosen if e.role != "draft"]
    assert len(set(steps)) == len(steps)
    assert not set(steps) & {(a.parents, a.memory, a.role) for a in open_asks}


@pytest.mark.parametrize("policy", SEARCHING, ids=lambda p: p.name)
def test_drafts_come_first_and_differ_in_number(policy):
    assert [e.role for e in select(policy, Tree(), n=policy.drafts)] == ["draft"] * policy.drafts
    waiting = as_asks(select(policy, Tree(), n=policy.drafts), 1)
    assert len({a.annotations["draft"] for a in waiting}) == policy.drafts


@pytest.mark.parametrize("policy", [Greedy(), TreeSearch()], ids=lambda p: p.name)
@pytest.mark.parametrize("role", ["draft", "start", "improve"])
def test_the_first_correct_node_is_extended_wherever_it_came_from(policy, role):
    made = tree(node(1, 0.0), node(2, 1.1, role=role))
    for seed in range(20):
        (chosen,) = select(policy, made, seed=seed)
        assert (chosen.role, chosen.parents) in (("improve", ("n2",)), ("repair", ("n1",)))


@pytest.mark.parametrize("policy", [Greedy(), TreeSearch()], ids=lambda p: p.name)
def test_while_nothing_is_correct_drafts_and_repairs_take_turns(policy):
    roles = {select(policy, tree(node(1, 0.0)), seed=seed)[0].role for seed in range(30)}
    assert roles == {"draft", "repair"}
    every = tree(*(node(i, 0.0) for i in range(1, policy.drafts + 1)))
    assert {select(policy, every, seed=seed)[0].role for seed in range(10)} == {"repair"}


@pytest.mark.parametrize("policy", POLICIES[:4], ids=lambda p: p.name)
@given(situation=situations, seed=st.integers(0, 99))
def test_every_selection_says_why(policy, situation, seed):
    made, open_asks = situation
    assert all(e.why for e in select(policy, made, open_asks, 2, seed))


@pytest.mark.parametrize(
    "policy",
    [Greedy(drafts=0), Evolutionary(islands=1, drafts=1), TreeSearch(drafts=0)],
    ids=lambda p: p.name,
)
def test_a_failure_is_repaired_a_few_times_by_one_author_at_a_time(policy):
    made, waiting = tree(node(1, 0.0)), ()
    tries = []
    for seq in range(1, 6):
        (chosen,) = select(policy, made)
        if chosen.role != "repair":
            break
        tries.append(chosen.parents)
        waiting = as_asks([chosen], seq)
        again = select(policy, Tree(made.nodes, made.asks + waiting), waiting)
        assert again[0].role == "draft"
        made = Tree(
            (*made.nodes, node(seq + 1, 0.0, int(chosen.parents[0][1:]), role="repair", ask=seq)),
            made.asks + waiting,
        )
    assert len(tries) == policy.repair_limit
    assert tries == [("n1",), ("n2",), ("n3",)]


@pytest.mark.parametrize(
    "policy",
    [Greedy(drafts=0), Evolutionary(islands=1, drafts=1), TreeSearch(drafts=0)],
    ids=lambda p: p.name,
)
def test_cheats_flags_and_bad_settings_are_not_repaired(policy):
    dead = (
        node(2, 0.0, status="reward_hack"),
        node(3, 0.0, status="needs_review"),
        node(4, 0.0, 1, role="tune"),
    )
    made = tree(node(1, 1.0), *dead)
    roles = {e.role for seed in range(30) for e in select(policy, made, n=3, seed=seed)}
    assert "repair" not in roles


@pytest.mark.parametrize(
    "policy",
    [Greedy(drafts=0), Evolutionary(islands=1, drafts=1), TreeSearch(drafts=0)],
    ids=lambda p: p.name,
)
def test_tuning_takes_turns_and_ends_when_nothing_is_untried(policy):
    facts = {"params": {"A": 1}, "tunables": {"A": [1, 2]}, "structure": "s"}
    fresh = tree(node(1, 2.0, **facts))
    (first,) = select(policy, fresh)
    assert (first.role, first.memory) == ("tune", "siblings")
    waiting = as_asks([first], 1)
    assert select(policy, Tree(fresh.nodes, waiting), waiting)[0].role == "improve"
    tried = tree(*fresh.nodes, node(2, 1.0, 1, role="tune", **{**facts, "params": {"A": 2}}))
    assert all(e.role != "tune" for e in select(policy, tried, n=3))


def test_greedy_takes_the_best_and_open_asks_lead_elsewhere():
    policy = Greedy(drafts=0, virtual_loss=0.5)
    made = tree(node(1, 3.0), node(2, 2.0))
    first, second = select(policy, made, n=2)
    assert first.parents == ("n1",)
    assert second.parents == ("n2",)
    tired = tree(node(1, 3.0), node(2, 2.9), *(node(i, 1.0, 1) for i in range(3, 6)))
    assert select(policy, tired)[0].parents == ("n2",)


MET = {"met": Meeting("n1", "slower", 0.75, (0.74, 0.76))}
LUCKY = [node(1, 2.0, interval=(1.98, 2.02)), node(2, 2.1, interval=(1.8, 2.4))]
LOST = [LUCKY[0], replace(LUCKY[1], **MET)]


@pytest.mark.parametrize(
    "policy",
    [
        Greedy(drafts=0),
        Evolutionary(islands=1, drafts=1, temperature=0.01, crossover_share=0.0),
        TreeSearch(drafts=0, exploration=0.0),
    ],
    ids=lambda p: p.name,
)
@pytest.mark.parametrize("nodes", [LUCKY, LOST], ids=["not_met", "lost"])
def test_what_is_known_is_extended_and_not_the_highest_median(policy, nodes):
    chosen = [select(policy, tree(*nodes), seed=seed)[0] for seed in range(20)]
    assert {e.parents for e in chosen} == {("n1",)}


def test_greedy_never_prefers_a_loser_however_often_the_winner_was_tried():
    near = Meeting("n1", "slower", 0.97, (0.96, 0.98))
    made = [node(1, 2.0, interval=(1.98, 2.02)), node(2, 1.99, 1, interval=(1.9, 2.1), met=near)]
    for count in range(3, 9):
        assert select(Greedy(drafts=0, patience=99), tree(*made))[0].parents == ("n1",)
        made.append(node(count, 1.0, 1))
    # one that was not told apart has its turn
    made[1] = replace(made[1], met=Meeting("n1", "equivalent", 0.99, (0.98, 1.01)))
    (chosen,) = select(Greedy(drafts=0, patience=99), tree(*made))
    assert chosen.parents == ("n2",)
    assert chosen.why == "n2 at 1.99x, not expanded yet; n1 leads, with 7 children"
    (chosen,) = select(Greedy(drafts=0), tree(node(1, 2.0), node(2, 1.0, 1)))
    assert chosen.why == "n1 at 2x, 1 child so far"


def test_greedy_extends_a_structure_rather_than_its_vain_settings():
    settings = [node(n, 1.9, 1, role="tune", interval=(1.7, 2.0)) for n in range(2, 6)]
    made = [node(1, 2.0, interval=(1.9, 2.1)), *settings]
    (chosen,) = select(Greedy(drafts=0, tune_limit=0), tree(*made))
    assert (chosen.parents, chosen.why) == (("n1",), "n1 at 2x, not expanded yet")
    better = node(6, 2.4, 1, role="tune", interval=(2.3, 2.5))
    (chosen,) = select(Greedy(drafts=0, tune_limit=0), tree(*made, better))
    assert chosen.parents == ("n6",)


def test_the_failure_of_what_is_known_to_be_better_is_repaired_first():
    made = tree(*LOST, node(3, 0.0, 2), node(4, 0.0, 1))
    assert [r.node.id for r in moves.repairs(moves.PolicyView.of(made, (), 8), 3)] == ["n4", "n3"]


def test_greedy_leaves_a_stall_by_a_clean_slate_and_a_crossover():
    policy = Greedy(drafts=0, patience=3)
    facts = [node(1, 3.0, structure="a"), node(2, 2.0, structure="b")]
    seen = {}
    for idle in range(2, 7):
        made = tree(*facts, *(node(i, 1.0, 1, structure="c") for i in range(3, 2 + idle)))
        (chosen,) = select(policy, made)
        seen[idle] = (chosen.role, chosen.memory, chosen.annotations["phase"])
    assert seen[3] == ("draft", "none", "restart")
    assert seen[4][:2] == ("improve", "siblings")
    assert seen[5][0] == "crossover"


def test_tree_search_walks_past_a_node_that_was_tried_enough():
    policy = TreeSearch(drafts=0, width=2, patience=99)
    made = tree(node(1, 2.0), node(2, 1.0), node(3, 3.0, 1), node(4, 0.0, 1, status="reward_hack"))
    assert select(policy, made)[0].parents == ("n3",)
    assert select(policy, tree(*made.nodes[:3]))[0].parents == ("n1",)


def test_islands_share_the_asks_and_name_island_and_generation():
    policy = Evolutionary(islands=3, drafts=1, brood=2)
    chosen = select(policy, Tree(), n=6)
    assert [e.annotations["island"] for e in chosen] == [0, 1, 2, 0, 1, 2]
    assert [e.annotations["generation"] for e in chosen] == [0] * 6
    assert (
        select(policy, Tree((), as_asks(chosen, 1)), as_asks(chosen, 1))[0].annotations[
            "generation"
        ]
        == 1
    )


def test_an_island_without_anyone_correct_is_settled_anew_and_says_so():
    policy = Evolutionary(islands=2, drafts=1)
    asks = (ask(1, "draft", island=0, draft=1), ask(2, "draft", island=1, draft=2))
    made = tree(node(1, 0.0, ask=1, status="reward_hack"), node(2, 2.0, ask=2), asks=asks)
    (chosen,) = select(policy, made)
    assert (chosen.parents, chosen.annotations["phase"]) == (("n2",), "reseed")
    assert (chosen.annotations["island"], chosen.annotations["migrated_from"]) == (0, 1)
    nobody = tree(
        node(1, 0.0, ask=1, status="reward_hack"),
        node(2, 0.0, ask=2, status="reward_hack"),
        asks=asks,
    )
    (alone,) = select(policy, nobody)
    assert (alone.role, alone.annotations["phase"], alone.annotations["island"]) == (
        "draft",
        "reseed",
        0,
    )


def test_migration_happens_once_in_its_generation():
    policy = Evolutionary(islands=2, drafts=1, brood=2, migrate_every=1, crossover_share=0.0)
    asks = tuple(ask(i, "draft", island=i % 2, generation=0, draft=i) for i in range(1, 5))
    made = tree(*(node(i, float(i), ask=i) for i in range(1, 5)), asks=asks)
    chosen = select(policy, made, n=4)
    moved = [
        (e.annotations["island"], e.annotations["migrated_from"], e.parents)
        for e in chosen
        if e.annotations["phase"] == "migrate"
    ]
    assert moved == [(0, 1, ("n3",)), (1, 0, ("n4",))]


@given(st.integers(0, 50), st.integers(1, 4), st.floats(0.0, 1.0))
def test_no_island_is_ever_forgotten(seed, islands, failing):
    """However much fails, every island keeps being asked for, in equal measure."""
    policy, luck, made = Evolutionary(islands=islands), random.Random(seed), Tree()
    asked: Counter[int] = Counter()
    for seq in range(1, 25):
        (new,) = as_asks(select(policy, made, seed=seed), seq)
        asked[new.annotations["island"]] += 1
        score = 0.0 if luck.random() < failing else luck.uniform(0.5, 3)
        child = node(seq, score, *(int(p[1:]) for p in new.parents), role=new.role, ask=seq)
        made = Tree((*made.nodes, child), (*made.asks, new))
        assert max(asked.values()) - min(asked[i] for i in range(islands)) <= 1


@pytest.mark.parametrize(
    "policy",
    [Greedy(drafts=0), Evolutionary(islands=1, drafts=1), TreeSearch(drafts=0)],
    ids=lambda p: p.name,
)
def test_a_fixed_failure_is_left_in_peace(policy):
    made = tree(node(1, 0.0), node(2, 1.0, 1, role="repair"))
    assert all(select(policy, made, seed=seed)[0].role != "repair" for seed in range(20))


def test_kin_are_not_crossed_and_no_pair_twice():
    view = moves.PolicyView.of(
        tree(node(1, 2.0), node(2, 1.9, 1), node(3, 1.8), node(4, 1.7), node(5, 1.6, 1, 4)), (), 8
    )
    partners = moves.partners(view, view.tree.by_id["n1"], view.tree.nodes)
    assert [n.id for n in partners] == ["n3"]
    under_way = view.plus(moves.crossover(view, view.tree.by_id["n3"], view.tree.by_id["n1"]))
    assert moves.partners(under_way, view.tree.by_id["n1"], view.tree.nodes) == []


def test_an_ask_that_was_answered_meanwhile_weighs_nothing():
    asks = (ask(1, "improve", 1),)
    made = tree(
        node(1, 3.0), node(2, 2.95), node(3, 3.1, 1, ask=1, status="needs_review"), asks=asks
    )
    assert moves.PolicyView.of(made, asks, 8).load == {}
    assert moves.PolicyView.of(tree(*made.nodes[:2], asks=asks), asks, 8).load == {"n1": 1}


def migrations(policy, evaluations):
    """The generations in which island 0 had an immigrant, on a run where everything succeeds."""
    made = Tree()
    for seq in range(1, evaluations + 1):
        (new,) = as_asks(select(policy, made), seq)
        child = node(
            seq, 1.0 + seq / 50, *(int(p[1:]) for p in new.parents), role=new.role, ask=seq
        )
        made = Tree((*made.nodes, child), (*made.asks, new))
    notes = [a.annotations for a in made.asks if a.annotations["island"] == 0]
    return [n["generation"] for n in notes if n["phase"] == "migrate"]


def test_migration_comes_round_every_so_many_generations():
    assert migrations(Evolutionary(islands=2, brood=2, migrate_every=1), 20) == [1, 2, 3, 4]
    assert migrations(Evolutionary(islands=2, brood=2, migrate_every=2), 20) == [2, 4]
    assert migrations(Evolutionary(islands=1, brood=2, migrate_every=1), 20) == []


def test_temperature_sets_how_often_the_best_is_the_parent():
    made = tree(*(node(i, 1.0 + i / 10) for i in range(1, 6)))

    def share(temperature):
        policy = Evolutionary(islands=1, drafts=1, crossover_share=0.0, temperature=temperature)
        return sum(select(policy, made, seed=seed)[0].parents == ("n5",) for seed in range(60)) / 60

    assert share(0.01) > 0.9
    assert share(100.0) < 0.5


def test_tree_search_explores_what_was_visited_less():
    made = tree(node(1, 2.0), node(2, 1.9), *(node(i, 1.5, 1) for i in range(3, 8)))
    assert select(TreeSearch(drafts=0, exploration=0.0, patience=99), made)[0].parents != ("n2",)
    assert select(TreeSearch(drafts=0, exploration=9.0, patience=99), made)[0].parents == ("n2",)


def test_every_ask_has_a_random_source_of_its_own():
    draws = {
        (seed, seq): ask_random(seed, seq).random() for seed in (0, 1, 11) for seq in (1, 2, 11)
    }
    assert len(set(draws.values())) == 9
    assert ask_random(0, 1).random() == draws[0, 1]


def test_options_are_checked():
    for bad in ({"repair_share": 1.5}, {"drafts": -1}, {"drafts": True}, {"patience": 2.5}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Greedy(**bad)
    with pytest.raises(ValueError, match="at least 1"):
        Evolutionary(islands=0)
    with pytest.raises(ValueError, match="temperature"):
        Evolutionary(temperature=0.0)
    with pytest.raises(ValueError, match="exploration"):
        TreeSearch(exploration=-1.0)
