"""Draws the input sets of a case: those for checking candidates and those for timed calls, each in
a state of the parameters."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...targets import DeviceFamily, cpu
from ...types import Operator
from ...wire import buffers, memory_files
from ...wire.nesting import tensors_of
from ...workers import parameter_states
from ..correctness import tolerance
from ..correctness.distance import same_bits
from ..errors import WorkerFailed
from ..exchange import input_sets, known_outputs
from ..exchange.bursts import working_bytes
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, Half, InputSet
from ..processes import answers
from ..processes.worker import Worker
from .input_families import (
    GROWN,
    LARGE_BYTES,
    LOUD,
    NAMED,
    STATE_FAMILIES,
    UNEVEN,
    WITHIN,
    checking_families,
    note_products,
    note_samples,
    objection,
    reveals_a_sample,
    timed_families,
)
from .set_allowances import (
    family_allowances,
    framework_allowances,
    note_faint_elements,
    set_allowances,
)
from .set_maker import SetMaker
from .task_workers import TASK_SECONDS
from .timing_plan import SEARCH_BURSTS, plan_timing
from .updates import Updates

if TYPE_CHECKING:
    import torch

# the largest case whose graph is traced: intermediate results need several times as much
GRAPH_BYTES = 1 << 28
# of a family, where an output hardly exceeds its limits, if the reference takes no longer for them
MORE_DRAWS, MORE_SECONDS = 8, 1.0
SETS_SHARE = 0.4  # share of a device's free memory for checking sets; workers need some too


class Drawer:
    """Draws sets through one reference worker."""

    def __init__(self, worker: Worker, family: DeviceFamily = cpu, *, shared: bool = False) -> None:
        self._worker, self._family, self._shared = worker, family, shared
        self._maker = SetMaker(worker, family, shared=shared)
        self.updates = Updates(worker, self.set_state)

    def describe(self, case: str) -> CasePool:
        """Construct the case's reference and learn its layouts. Raises WorkerFailed("task")."""
        seed = secrets.randbits(48)
        reply = self._worker.ask("describe", seconds=TASK_SECONDS, case=case, seed=seed)
        pool = CasePool(case, self._worker.data(reply), seed, shared=self._shared)
        pool.init_fd = memory_files.create("init", int(pool.describe["init"]["bytes"]))
        self._worker.ask("init", [pool.init_fd], seconds=TASK_SECONDS, case=case)
        memory_files.seal(pool.init_fd)
        return pool

    def graph(self, pool: CasePool) -> tuple[tuple[Operator, ...], str]:
        """Return the graph of a described case, or why it is not known."""
        if pool.input_bytes + pool.slot_bytes > GRAPH_BYTES:
            return (), f"its first case has more than {GRAPH_BYTES >> 20} MiB"
        reply = self._worker.data(
            self._worker.ask("graph", seconds=TASK_SECONDS, case=pool.name, seed=pool.seed)
        )
        return answers.read_graph(reply)

    def construct(self, pool: CasePool) -> None:
        """Construct the reference of a case that another process has described."""
        layouts = {
            "outputs": pool.outputs,
            "doubled": pool.describe["doubled"],
            "upstream": pool.upstream,
            "updated": pool.updated,
            "second": pool.describe["second"],
        }
        self._worker.ask(
            "construct", seconds=TASK_SECONDS, case=pool.name, seed=pool.seed, **layouts
        )

    def set_state(self, pool: CasePool, seed: int) -> int:
        """Put the reference into a state (0: as constructed). Returns the descriptor of its
        values."""
        if seed in pool.states:
            if seed != pool.states.current:
                self._worker.ask("set_state", seconds=TASK_SECONDS, case=pool.name, seed=seed)
        else:
            fd = memory_files.create("state", int(pool.describe["state_layout"]["bytes"]))
            self._worker.ask("set_state", [fd], seconds=TASK_SECONDS, case=pool.name, seed=seed)
            memory_files.seal(fd)
            pool.states[seed] = fd
        pool.states.current = seed
        return pool.states[seed]

    def take_state(self, pool: CasePool, seed: int) -> None:
        """Put the reference into a state whose values another process has written."""
        self._worker.ask("take_state", [pool.states[seed]], seconds=TASK_SECONDS, case=pool.name)

    def draw_checking(self, pool: CasePool) -> None:
        """Draw the checking sets: two plain ones, one of each family that the task can handle, and
        one in each state of changed parameters."""
        if pool.checking:
            return
        self.set_state(pool, 0)
        again = self._maker.make_set(pool, "dense").expected
        plain = [
            input_set
            for _ in range(2)
            if (input_set := self._checking_set(pool, "dense", again)) is not None
        ]
        pool.checking = [(0, input_set) for input_set in plain]
        note_faint_elements(pool, plain, again)
        note_samples(pool, plain[0], plain[0].allowances)
        outputs = zip(*(input_set.expected for input_set in plain), again, strict=True)
        pool.predictable = [
            n
            for n, draws in enumerate(outputs)
            if tolerance.are_predictable(draws, pool.allowances[n])
        ]
        del again, outputs  # in a large case, each holds as much memory as a set
        if self.spare_families(pool) == 0:
            del plain[1:], pool.checking[1:]  # a set of a family reveals more than a second plain
        families = checking_families(pool)
        if pool.keeps_floating:  # those that are timed come first, where there is no memory for all
            families.sort(key=lambda family: family in LOUD)
        for family in families[: self.spare_families(pool)]:
            if family in WITHIN and not (pool.keeps_floating or "uneven" in pool.dropped_families):
                continue
            input_set = self._checking_set(pool, family)
            if input_set is not None:
                pool.checking.append((0, input_set))
                if input_set.left_open and input_set.sampled:
                    pool.reveals[family] = False
                # In timed sets all outputs are judged: whoever notices that some are not would
                # compute only the others.
                elif family in (*UNEVEN, NAMED) and not (pool.keeps_floating and family in LOUD):
                    limits = family_allowances(pool, input_set)
                    pool.family_allowances[family] = limits
                    note_samples(pool, input_set, limits)
                    if input_set.sampled and input_set.sampled[0]:
                        pool.reveals[family] = reveals_a_sample(
                            input_set.sampled[0], limits, pool.combining
                        )
        # two sets are needed to detect a candidate that returns one set's outputs for another
        if len(pool.checking) < 2 and (input_set := self._checking_set(pool, "dense")) is not None:
            pool.checking.append((0, input_set))
        if pool.describe["state"]:
            *parts, changed = parameter_states.draw_changes()
            if len(pool.describe["state"]) == 1:
                del parts[1:]  # some of one are all
            for state in (*parts, changed):
                if state != changed and (
                    not pool.changes_in_parts(state) or self.spare_families(pool) == 0
                ):
                    continue
                self.set_state(pool, state)
                input_set = self._checking_set(pool, "dense")
                if input_set is not None:
                    pool.checking.append((state, input_set))
                    note_products(pool, input_set, input_set.allowances)
            self._draw_state(pool, GROWN, ("grown", "partly grown", "partly grown"))
            self._draw_state(pool, STATE_FAMILIES["uneven"], ("uneven",))
            self._draw_state(pool, STATE_FAMILIES["raised"], ("raised",))
            if max(pool.input_bytes, pool.state_bytes) <= LARGE_BYTES:
                self._draw_state(pool, STATE_FAMILIES["moved"], ("moved",))
            self.set_state(pool, 0)

    def _draw_state(
        self, pool: CasePool, family: str, kinds: tuple[parameter_states.Kind, ...]
    ) -> None:
        """Draw one set with parameters of another kind, the first of these that the task can
        handle: with grown ones, for example, if not of all tensors, then of some."""
        if self.spare_families(pool) == 0:
            return
        for kind in kinds:
            seed = parameter_states.draw(kind)
            self.set_state(pool, seed)
            input_set = self._checking_set(pool, family)
            if input_set is not None:
                pool.dropped_families.pop(family, None)
                pool.checking.append((seed, input_set))
                if kind in STATE_FAMILIES and not input_set.left_open:
                    pool.state_allowances[kind] = family_allowances(pool, input_set)
                limits = pool.state_allowances.get(kind, input_set.allowances)
                note_products(pool, input_set, limits)
                return
            pool.forget_state(seed)

    def draw_timing(
        self, pool: CasePool, latency_us: float, bursts: int = SEARCH_BURSTS, candidates: int = 1
    ) -> None:
        """Draw timing sets for one pair of processes and a kernel of about `latency_us` per call,
        unless there are some: for `bursts` bursts if the case is small, times the number of
        candidates."""
        if pool.timing and pool.timed_candidates == candidates:
            return
        pool.release()
        pool.timed_candidates = candidates
        one_by_one = self._family.ONE_BY_ONE
        plan = plan_timing(
            pool, latency_us, bursts, candidates, self.free_bytes(), one_by_one=one_by_one
        )
        pool.one_by_one, pool.short, pool.empty_bursts = one_by_one, plan.short, plan.empty_bursts
        pool.calls, pool.warm_calls = plan.calls, plan.warm_calls
        self.set_state(pool, 0)
        if one_by_one and pool.twin_bytes is None:
            pool.twin_bytes = self._twin_bytes(pool)
        pool.halves = self._draw_halves(pool, plan.bursts, candidates)
        pool.timing = [group for half in pool.halves for group in half.groups]
        if pool.calls > 1 and not one_by_one:
            singles = self._maker.make_group(pool, ["dense"] * (plan.single_calls * candidates))
            pool.single_call_groups = singles.split()
        pool.rotating_bytes = pool.timing_bytes
        if len(pool.halves) > 1:
            self.set_state(pool, 0)

    def _draw_halves(self, pool: CasePool, bursts: int, candidates: int) -> list[Half]:
        """Draw the bursts for all candidates. If there are parameters, half of the bursts come
        after these have changed, which reveals a candidate that caches what depends only on them,
        and have become uneven or moved, which reveals one that reads only a sample of them. The
        reference is left in the last state."""
        changes = bool(pool.describe["state"]) and bursts > 1
        dense = next(
            input_set
            for state, input_set in pool.checking
            if state == 0 and input_set.family == "dense"
        )
        count, usable = bursts * pool.calls, list(pool.family_allowances)
        revealing = [family for family, noticed in pool.reveals.items() if noticed]
        # each candidate's own, so that it meets every family as if it were alone
        own = [timed_families(usable, count, revealing) for _ in range(candidates)]
        families = [
            family
            for first in range(0, count, pool.calls)
            for each in own
            for family in each[first : first + pool.calls]
        ]
        later = bursts // 2 * candidates * pool.calls if changes else 0
        groups = self._draw_groups(pool, families[later:])
        known = {
            "leaves": pool.outputs["leaves"],
            "twin_bytes": pool.twin_bytes or 0,
            "parts": pool.one_by_one,
        }
        halves = [Half(0, groups, dense, input_sets.typical_sizes(groups), **known)]
        if changes:
            kind = pool.next_kind()
            limits = pool.state_allowances.get(kind, [])
            changed = parameter_states.draw(kind)
            self.set_state(pool, changed)
            groups = self._draw_groups(pool, families[:later])
            usual = input_sets.typical_sizes(groups)
            warm = dense
            if pool.warm_calls or not pool.one_by_one:
                warm = input_sets.make_warm_set(
                    self._maker.make_group(pool, ["dense"]), limits or pool.allowances, usual
                )
            halves.append(Half(changed, groups, warm, usual, limits, **known))
        return halves

    def _twin_bytes(self, pool: CasePool) -> int:
        """Return how much of a call's outputs other draws have as well, among more draws than are
        timed: there may be many kinds of outputs. 0 where few can be had; the timed ones tell
        then."""
        outputs = self._maker.draw_outputs(pool, known_outputs.PAIRED_DRAWS)
        if len(outputs) < known_outputs.FEW_DRAWS:
            return 0
        leaves, allowances = pool.outputs["leaves"], pool.allowances
        return input_sets.compared(outputs, leaves, allowances, parts=pool.one_by_one).twin_bytes()

    def _draw_groups(self, pool: CasePool, families: list[str]) -> list[Group]:
        return [
            self._maker.make_group(pool, families[first : first + pool.calls])
            for first in range(0, len(families), pool.calls)
        ]

    def sample(self, pool: CasePool) -> InputSet:
        """Draw one more set of plain inputs."""
        return self._maker.make_set(pool, "dense")

    def initial_state(self, pool: CasePool) -> dict[str, torch.Tensor]:
        """Return the parameters and buffers as constructed, by name."""
        values = buffers.read(self.set_state(pool, 0), pool.describe["state_layout"])
        return dict(zip(pool.describe["state"], values, strict=True))

    def unrecorded(self, pool: CasePool) -> CasePool | None:
        """Return a case with gradients as it is called where none are recorded, with checking sets:
        two plain ones and one after a parameter change. None for a case without gradients, and
        where there is no memory for a set or the reference cannot be called so."""
        if pool.upstream and pool.unrecorded is None:
            pool.unrecorded = pool.without_gradients()
            changed = [state for state, each in pool.checking if state and each.family == "dense"]
            for state in (0, 0, *changed):
                if self.spare_families(pool) != 0:
                    self.set_state(pool, state)
                    self._add_unrecorded_set(pool.unrecorded, state)
            self.set_state(pool, 0)
        return pool.unrecorded if pool.unrecorded and pool.unrecorded.checking else None

    def _add_unrecorded_set(self, pool: CasePool, state: int) -> None:
        try:
            input_set = self._maker.make_set(pool, "dense")
        # the reference itself needs gradients: it computes a force, say
        except WorkerFailed as error:
            pool.dropped_families["dense"] = str(error).splitlines()[0][:200]
            return
        input_set.allowances = set_allowances(pool, input_set)
        if not objection(pool, input_set):
            pool.checking.append((state, input_set))

    def draw_again(self, pool: CasePool, state: int, input_set: InputSet) -> InputSet | None:
        """Draw a timed set again as a checking one, in a state of the parameters: with the
        framework's own outputs, and the allowances for exactly its inputs. None if the set differs
        when it is drawn again."""
        before = pool.states.current
        try:
            self.set_state(pool, state)
            again = self._maker.make_set(pool, input_set.family, input_set.seed)
        except WorkerFailed:
            return None
        finally:
            if before is not None:
                self.set_state(pool, before)
        both = zip(
            *(tensors_of(each.file.value(each.layout, each.base)) for each in (input_set, again)),
            strict=True,
        )
        if not all(same_bits(one, other) for one, other in both):
            return None
        again.allowances = set_allowances(pool, again)
        return again

    def framework_allowances(
        self, pool: CasePool, state: int, family: str, like: InputSet | None
    ) -> list[list[tolerance.FrameworkAllowance]]:
        """Return what the framework's own error would allow of each output of a set, if there is
        one, and of more sets of its family in a state of the parameters; of fewer if the reference
        refuses one, or is not finite."""
        key = state, family
        if key not in pool.framework_allowances:
            pool.framework_allowances[key] = self._allowances_of_more(pool, *key)
        own = [framework_allowances(pool, like)] if like is not None else []
        return [*own, *pool.framework_allowances[key]]

    def _allowances_of_more(
        self, pool: CasePool, state: int, family: str
    ) -> list[list[tolerance.FrameworkAllowance]]:
        before, found = pool.states.current, list[list[tolerance.FrameworkAllowance]]()
        small = pool.input_bytes <= LARGE_BYTES and MORE_DRAWS * pool.call_s <= MORE_SECONDS
        try:
            with contextlib.suppress(WorkerFailed):
                self.set_state(pool, state)
                for _ in range(MORE_DRAWS if small else 1):
                    input_set = self._maker.make_set(pool, family)
                    if input_set.finite:
                        found.append(framework_allowances(pool, input_set))
        finally:
            if before is not None:
                self.set_state(pool, before)
        return found

    def draw_example(self, pool: CasePool, family: str) -> InputSet:
        """Draw a set like a checking one whose values may be shown: it is not used for judging and
        does not change the limits of those that are. Raises WorkerFailed."""
        self.set_state(pool, 0)
        input_set = self._maker.make_set(pool, family)
        input_set.allowances = set_allowances(pool, input_set)
        return input_set

    def _checking_set(
        self, pool: CasePool, family: str, again: Sequence[torch.Tensor] = ()
    ) -> InputSet | None:
        """Draw a checking set; None, with a note, if the reference or the framework cannot handle
        the family. again: for the first set, the expected outputs of another plain draw."""
        try:
            # of several plain sets, the first is enough
            timed = family in (*UNEVEN, NAMED) or (family == "dense" and not pool.families)
            input_set = self._maker.make_set(
                pool,
                family,
                sampled=timed and bool(pool.combining),
                replaced=(timed or pool.states.current != 0) and pool.may_hide_inputs,
            )
        except WorkerFailed as error:
            if family == "dense":
                raise
            pool.dropped_families[family] = (
                f"the reference raises an error: {str(error).splitlines()[0][:200]}"
            )
            return None
        if not pool.steady:
            pool.steady = [
                tolerance.are_steady(*both) for both in zip(input_set.expected, again, strict=True)
            ]
            pool.apart_growths = [
                tolerance.single_growth(*both) if pool.alone_along(number) else math.inf
                for number, both in enumerate(zip(input_set.expected, again, strict=True))
            ]
        input_set.allowances = set_allowances(pool, input_set)
        reason = objection(pool, input_set)
        if reason and family != "dense":
            pool.dropped_families[family] = reason
            if input_set.sampled:
                pool.reveals[family] = False
            return None
        # plain draws cannot be left out: there the orders that were tried are right
        for number in input_set.left_open if family not in ("dense", "special") else ():
            input_set.allowances[number] = replace(input_set.allowances[number], rule="open")
        if family not in pool.families:
            pool.families.append(family)
        if family == "dense":
            pool.allowances = [
                tolerance.envelope(a, b)
                for a, b in zip(
                    pool.allowances or input_set.allowances, input_set.allowances, strict=True
                )
            ]
        return input_set

    def spare_families(self, pool: CasePool) -> int | None:
        """Return for how many more families there is memory, besides what is needed in any case
        (such as one set after a parameter change and a candidate's memory); None for all."""
        if not self._shared:
            return None
        free, set_bytes = self.free_bytes(), pool.set_bytes
        needed = working_bytes(pool) + (set_bytes if pool.describe["state"] else 0)
        return max(
            0, min(max(1, int(SETS_SHARE * free) // set_bytes - 1), (free - needed) // set_bytes)
        )

    def free_bytes(self) -> int:
        """Return the free bytes of the memory in which sets are held."""
        return self._maker.free_bytes()
