"""Islands of populations, with mutation, crossover and migration."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from harness.types import Spent
from kevolve_mcp.quantities import times

from ..comparison import stalled_for
from ..memory import PATIENCE
from ..node import Node, Role
from ..tree import Ask, Expansion, Tree
from . import moves
from .base import SelectionPolicy
from .moves import GENERATION, ISLAND, MIGRATED_FROM, PolicyView


@dataclass(frozen=True)
class Evolutionary(SelectionPolicy):
    """Each island breeds from its own best nodes; the island with the fewest asks is next.

    A node belongs to the island that its ask names, without an ask to its first parent's; starts
    are distributed in turn. The population of an island is its `population` best correct nodes. A
    parent is drawn from it with a weight of K ** (1 / temperature), where K is its standing
    (`ranking.standings`), lowered by `virtual_loss` for every open ask on it. `brood` asks make a
    generation. From generation `crossover_from` on, `crossover_share` of the asks have two parents
    of different structure. Every `migrate_every` generations one ask expands the best node of the
    next island round the ring: the child is the immigrant. An island without a correct node and
    without anything to repair is reseeded from another island, or by a draft (phase "reseed").

    drafts: independent first samples per island; correct starts stand in for all but one. The other
    options are those of the greedy policy, with stagnation counted per island. The paper names the
    policy and gives no values; these are ours.
    """

    name: ClassVar[str] = "evolutionary"

    islands: int = 2
    drafts: int = 2
    population: int = 6
    brood: int = 4
    crossover_share: float = 0.2
    crossover_from: int = 1
    migrate_every: int = 2
    temperature: float = 0.1
    repair_share: float = 0.5
    repair_limit: int = 3
    tune_limit: int = 4
    virtual_loss: float = 0.7
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        shares = ("crossover_share", "repair_share", "virtual_loss")
        counts = (
            "islands",
            "drafts",
            "population",
            "brood",
            "crossover_from",
            "migrate_every",
            "repair_limit",
            "tune_limit",
            "patience",
        )
        moves.check_options(self, shares, counts)
        if (
            min(self.islands, self.drafts, self.population, self.brood, self.migrate_every) < 1
            or self.temperature <= 0
        ):
            raise ValueError(
                "islands, drafts, population, brood and migrate_every must be at least 1, "
                "temperature above 0"
            )

    def without_tuning(self) -> Evolutionary:
        return replace(self, tune_limit=0)

    def select(
        self, tree: Tree, open_asks: Sequence[Ask], rng: random.Random, spent: Spent, n: int
    ) -> list[Expansion]:
        view = PolicyView.of(tree, open_asks, self.patience)
        homes = self._homes(tree)
        chosen: list[Expansion] = []
        for _ in range(n):
            archipelago = [_Island(self, i, view, homes) for i in range(self.islands)]
            turn = min(archipelago, key=lambda island: (island.size, island.index))
            chosen.append(turn.next(archipelago, rng))
            view = view.plus(chosen[-1])
        return chosen

    def _homes(self, tree: Tree) -> dict[str, int]:
        """The island of each node."""
        homes: dict[str, int] = {}
        dealt = 0
        for node in tree.nodes:
            named = self.valid(tree.annotation(node, ISLAND))
            if named is None and not node.parents:
                named, dealt = dealt % self.islands, dealt + 1
            homes[node.id] = homes[node.parents[0]] if named is None else named
        return homes

    def valid(self, index: object) -> int | None:
        """Return an annotation as the index of an island, None where it is not one (from another
        policy, or with other options)."""
        return (
            index
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < self.islands
            else None
        )


@dataclass(frozen=True)
class _Island:
    policy: Evolutionary
    index: int
    world: PolicyView
    homes: dict[str, int]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(n for n in self.world.tree.nodes if self.homes[n.id] == self.index)

    @cached_property
    def pending(self) -> tuple[Ask, ...]:
        def home(ask: Ask) -> int | None:
            named = self.policy.valid(ask.annotations.get(ISLAND))
            return self.homes.get(ask.parents[0]) if named is None and ask.parents else named

        return tuple(a for a in self.world.pending if home(a) == self.index)

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles of all nodes and open asks of the island."""
        return (*(n.role for n in self.nodes), *(a.role for a in self.pending))

    @property
    def size(self) -> int:
        return len(self.roles)

    @cached_property
    def pool(self) -> tuple[Node, ...]:
        """Return the population, best first."""
        return tuple(n for n in self.world.tree.frontier() if self.homes[n.id] == self.index)[
            : self.policy.population
        ]

    @cached_property
    def generation(self) -> int:
        """Return the generation of the next ask: `brood` asks, answered or open, make one."""
        return sum(1 for role in self.roles if role != "start") // self.policy.brood

    def next(self, archipelago: Sequence[_Island], rng: random.Random) -> Expansion:
        policy = self.policy
        view = replace(self.world, stalled_for=stalled_for(self.nodes))
        notes: dict[str, Any] = {ISLAND: self.index, GENERATION: self.generation}
        if self._drafts_due():
            return moves.draft(view, f"independent first samples of island {self.index}", **notes)
        broken = [
            r
            for r in moves.repairs(view, policy.repair_limit)
            if self.homes[r.node.id] == self.index
        ]
        if broken and (not self.pool or rng.random() < policy.repair_share):
            return moves.repair(view, broken[0], policy.repair_limit, **notes)
        if not self.pool or self._migration_due():
            arrival = self._from_abroad(view, archipelago, notes)
            if arrival is not None:
                return arrival
        if not self.pool:
            return moves.draft(
                view,
                f"no island has a correct candidate, so island {self.index} starts again",
                "reseed",
                **notes,
            )
        order = self._drawn(rng)
        if notes[GENERATION] >= policy.crossover_from and rng.random() < policy.crossover_share:
            mates = moves.partners(view, order[0], order[1:])
            if mates:
                return moves.crossover(view, order[0], mates[0], **notes)
        for node in order:
            move = moves.expand(view, node, self.pool, policy.tune_limit, **notes)
            if move is not None:
                return move
        return moves.draft(
            view, f"all moves of island {self.index} are already in progress", **notes
        )

    def _drafts_due(self) -> bool:
        drafts = sum(
            1 for n in self.nodes if n.role == "draft" or (not n.parents and n.role != "start")
        )
        made = drafts + sum(1 for a in self.pending if a.role == "draft")
        starts = sum(1 for n in self.nodes if n.role == "start" and not n.failed)
        return made < max(1, self.policy.drafts - starts)

    def _migration_due(self) -> bool:
        """Whether a migration is due: once in every generation for it, if there is another
        island."""
        now = self.generation
        if now == 0 or now % self.policy.migrate_every or self.policy.islands == 1:
            return False
        tree = self.world.tree
        arrived = [
            (tree.annotation(n, MIGRATED_FROM), tree.annotation(n, GENERATION)) for n in self.nodes
        ]
        arriving = [
            (a.annotations.get(MIGRATED_FROM), a.annotations.get(GENERATION)) for a in self.pending
        ]
        return not any(source is not None and when == now for source, when in arrived + arriving)

    def _from_abroad(
        self, view: PolicyView, archipelago: Sequence[_Island], notes: dict[str, Any]
    ) -> Expansion | None:
        """Expand here the best node of the nearest previous island on the ring that has one."""
        phase = "migrate" if self.pool else "reseed"
        for step in range(1, len(archipelago)):
            source = archipelago[self.index - step]
            if source.pool:
                best = source.pool[0]
                why = (
                    f"bring {best.id} ({times(best.score)}) from island {source.index} to island "
                    f"{self.index}"
                )
                written = {**notes, moves.PHASE: phase, MIGRATED_FROM: source.index}
                calm = replace(view, stalled_for=0)  # a clean slate would not migrate anything
                moved = [
                    moves.improve(calm, best),
                    *(moves.improve(calm, best, m) for m in moves.BESIDES),
                ]
                move = next((m for m in moved if not view.under_way(m)), None)
                if move is not None:
                    return replace(move, annotations={**move.annotations, **written}, why=why)
        return None

    def _drawn(self, rng: random.Random) -> list[Node]:
        """The population in a weighted random order: each place is drawn without replacement in
        proportion to the weights (Efraimidis and Spirakis 2006: sort by u ** (1 / w), here by
        ln(u) / w)."""
        known = self.world.tree.known
        top = known[self.pool[0].id] or 1.0

        def weight(node: Node) -> float:
            lowered: float = self.policy.virtual_loss ** self.world.load.get(node.id, 0)
            fitter: float = (known[node.id] / top) ** (1 / self.policy.temperature)
            return max(1e-9, fitter * lowered)

        keyed = [(-rng.expovariate(1.0) / weight(node), node) for node in self.pool]
        return [node for _, node in sorted(keyed, key=lambda pair: (-pair[0], pair[1].seq))]
