"""Who stands above whom: by what is known, whatever the medians say."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.types import Verdict
from kevolve_mcp.search import Meeting, Tree
from kevolve_mcp.search.ranking import apart, champion

from .build import node, situations, tree


def met(other: int, verdict: Verdict | None, ratio: float = 1.0) -> Meeting:
    return Meeting(f"n{other}", verdict, ratio, (ratio * 0.99, ratio * 1.01))


def test_the_best_is_who_won_head_to_head() -> None:
    close = {"interval": (1.4, 1.6)}
    first = node(1, 1.5, **close)
    winner = node(2, 1.45, interval=(1.35, 1.55), met=met(1, "faster", 1.08))
    equal = node(3, 1.58, interval=(1.5, 1.66), met=met(2, "equivalent"))
    assert tree(first, winner, equal).best() == winner
    assert [n.id for n in tree(first, winner, equal).frontier()] == ["n2", "n3", "n1"]
    # plainly ahead by what was measured since: no meeting holds it back
    assert tree(first, winner, replace(equal, interval=(1.9, 2.1))).best() != winner
    # whom it met counts no more
    assert tree(replace(first, eligible=False), replace(winner, eligible=False), equal).best() == (
        equal
    )
    # the best of the moment was another one: it won, and its figure decides
    ahead = replace(equal, met=met(1, "faster", 1.06))
    assert tree(first, winner, ahead).best() == ahead
    assert tree(first, winner, replace(ahead, interval=(1.3, 1.66))).best() == winner


def test_without_a_meeting_the_assured_figure_decides() -> None:
    first = node(1, 1.5, interval=(1.4, 1.6))
    other = node(2, 1.7, interval=(1.2, 2.4), met=Meeting("n1", note="nothing is timed here"))
    assert tree(first, other).best() == first
    assert tree(first, replace(other, interval=(1.45, 2.4))).best() != first


# n2 has the higher median, and lost
LOSER = tree(
    node(1, 2.0, interval=(1.98, 2.02)),
    node(2, 2.1, 1, interval=(1.8, 2.4), met=Meeting("n1", "slower", 0.75, (0.74, 0.76))),
)


def test_the_loser_of_a_meeting_stands_below_the_winner() -> None:
    assert [n.id for n in LOSER.frontier()] == ["n1", "n2"]
    assert LOSER.known["n2"] == 1.98 * 0.76
    # also where its own interval assures more, and neither of them leads
    made = tree(
        node(1, 2.0, interval=(1.7, 2.3)),
        node(2, 2.1, interval=(1.9, 2.4), met=met(1, "slower", 0.9)),
        node(3, 3.0),
    )
    assert [n.id for n in made.frontier()] == ["n3", "n1", "n2"]


def test_what_a_meeting_assures_counts_where_an_interval_says_less() -> None:
    made = tree(
        node(1, 2.0, interval=(1.98, 2.02)),
        node(2, 2.3, interval=(1.2, 3.0), met=Meeting("n1", "faster", 1.1, (1.08, 1.12))),
        node(3, 2.2, interval=(1.1, 3.0), met=Meeting("n1", "equivalent", 1.0, (0.99, 1.01))),
    )
    assert [round(made.known[i], 4) for i in ("n1", "n2", "n3")] == [1.98, 2.1384, 1.9602]


verdicts: st.SearchStrategy[tuple[Verdict, float]] = st.sampled_from(
    [("faster", 1.1), ("slower", 0.9), ("equivalent", 1.0), ("inconclusive", 1.02)]
)


@given(situations, st.data())
def test_no_loser_ever_stands_above_its_winner(situation, data) -> None:
    """Each of some nodes met the best of its moment."""
    nodes = []
    for each in situation[0].nodes:
        best = Tree(tuple(nodes)).best()
        if best is not None and each.score > 0 and data.draw(st.booleans()):
            verdict, ratio = data.draw(verdicts)
            each = replace(each, met=met(best.seq, verdict, ratio))
        nodes.append(each)
    made = Tree(tuple(nodes))
    order = [n.id for n in made.frontier()]
    for each in nodes:
        if each.met is None or apart(each.span, made.by_id[each.met.other].span):
            continue
        ahead = order.index(each.id) < order.index(each.met.other)
        assert ahead or each.met.verdict != "faster"
        assert not ahead or each.met.verdict == "faster"
    assert made.best() == champion(nodes)


def test_a_chain_of_wins_proves_no_more_than_was_measured_of_the_last() -> None:
    made = tree(
        node(1, 2.0, interval=(1.9, 2.2)),
        node(2, 2.1, interval=(2.0, 2.3), met=met(1, "faster", 1.16)),
        node(3, 2.25, interval=(2.1, 2.4), met=met(2, "faster", 1.16)),
    )
    assert made.known["n2"] == 1.9 * 1.16 * 0.99
    assert made.known["n3"] == 2.4
    assert [n.id for n in made.frontier()] == ["n3", "n2", "n1"]
    # the winner stays above whom it beat, whatever its own figures assure
    below = tree(
        node(1, 2.0, interval=(1.9, 2.2)),
        node(2, 1.8, interval=(1.7, 1.95), met=met(1, "faster", 1.06)),
    )
    assert [n.id for n in below.frontier()] == ["n2", "n1"]
