from hypothesis import given

from kevolve_mcp.search import ROOT, Tree

from .build import ask, node, situations, tree

FORK = tree(
    node(1, 1.0),
    node(2, 1.5, 1),
    node(3, 0.0, 1),
    node(4, 2.0, 2),
    node(5, 0.8),
    node(6, 1.7, 4, 5),
)


def ids(nodes):
    return [n.id for n in nodes]


def test_family_relations():
    assert ids(FORK.children(ROOT)) == ["n1", "n5"]
    assert ids(FORK.children("n1")) == ["n2", "n3"]
    assert ids(FORK.children("n5")) == ["n6"]
    assert FORK.depth(ROOT) == 0
    assert FORK.depth("n6") == 4
    assert FORK.ancestors("n6") == {"n1", "n2", "n4", "n5"}
    assert FORK.descendants("n1") == {"n2", "n3", "n4", "n6"}


def test_frontier_is_the_correct_nodes_best_first():
    assert ids(FORK.frontier()) == ["n4", "n6", "n2", "n1", "n5"]


def test_untried_counts_the_settings_left_within_a_structure():
    grid = {"A": [1, 2], "B": [True, False]}
    made = tree(
        node(1, 1.0, params={"A": 1, "B": True}, tunables=grid, structure="s"),
        node(2, 1.0, 1, params={"A": 2, "B": True}, tunables=grid, structure="s"),
        node(3, 0.0, 1, params={"A": 2, "B": True}, tunables=grid, structure="s"),
        node(4, 1.0, 1, params={"A": 9, "B": True}, tunables=grid, structure="s"),
        node(5, 1.0, 1, params={"A": 1, "B": False}, tunables=grid, structure="other"),
        node(6, 1.0, params={"A": 1}),
        node(7, 1.0),
    )
    assert made.untried("n1") == 2
    assert made.untried("n5") == 3
    assert made.untried("n6") is None
    assert made.untried("n7") == 0


def test_annotations_are_read_from_the_ask_first():
    made = tree(
        node(1, ask=1, annotations={"island": 7, "own": 1}),
        node(2, annotations={"island": 3}),
        asks=(ask(1, "draft", island=2),),
    )
    assert made.annotation(made.nodes[0], "island") == 2
    assert made.annotation(made.nodes[0], "own") == 1
    assert made.annotation(made.nodes[1], "island") == 3
    assert made.annotation(made.nodes[1], "absent") is None


@given(situations)
def test_inserting_changes_nothing_that_was_there(situation):
    whole, _ = situation
    for size in range(len(whole.nodes)):
        part = Tree(whole.nodes[:size], whole.asks)
        for n in part.nodes:
            assert part.trajectory(n.id) == whole.trajectory(n.id)
            assert part.ancestors(n.id) == whole.ancestors(n.id)
            assert whole.children(n.id)[: len(part.children(n.id))] == part.children(n.id)
            assert (part.untried(n.id) is None) == (whole.untried(n.id) is None)
            assert (whole.untried(n.id) or 0) <= (part.untried(n.id) or 0)
        before, after = part.best(), whole.best()
        assert before is None or (
            after is not None and whole.known[after.id] >= whole.known[before.id]
        )
