"""The best nodes of many sessions, as their trees call them, in a few queries.

A tree is loaded whole, with the texts of its candidates; a list of sessions needs only the figures
of those nodes that may be the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from kevolve_mcp.search.fitness import interval
from kevolve_mcp.search.node import Node

from . import notes
from .evaluations import case_results
from .rows import number


def contenders(connection: Connection, rows: Iterable[Row[Any]]) -> list[Node]:
    """What `search.ranking` has to know of nodes, in the order of `rows`.

    rows: with seq, candidate, evaluation (the row id of the one that counts), status, fitness,
    eligible, annotations, refuted."""
    found = list(rows)
    cases = case_results(connection, [row.evaluation for row in found])
    return [
        Node(
            id=f"n{row.seq}",
            seq=row.seq,
            parents=(),
            candidate=row.candidate,
            evaluation=f"e{row.evaluation}",
            status=row.status,
            fitness=row.fitness,
            eligible=row.eligible and row.refuted is None,
            interval=interval(cases[row.evaluation]),
            met=notes.of_node(row.annotations).met,
        )
        for row in found
    ]


def completed(connection: Connection, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Nodes as `load_nodes` gives them, with what `search.ranking` has to know."""
    cases = case_results(connection, [number(node.evaluation, "e") for node in nodes])
    return tuple(
        replace(
            node,
            interval=interval(cases[number(node.evaluation, "e")]) if node.fitness else None,
        )
        for node in nodes
    )
