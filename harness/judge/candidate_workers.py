"""The confined workers in which a candidate is loaded: their start, and the preparation of a case
in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..sandbox.confine import Confinement
from ..types import Case
from ..wire import frames, memory_files
from .device import host_memory
from .errors import Interfered
from .exchange import bursts
from .exchange.case_pool import CasePool
from .exchange.slots import Slots
from .processes.fork_server_process import ForkServer
from .processes.worker import Worker
from .stage_context import StageContext

LOAD_SECONDS = 30.0
# calls may take 10 s in any case, and 200 times as long as the strongest baseline,
CALL_FLOOR_SECONDS, CALL_FACTOR = 10.0, 200.0
SLOW_FACTOR = 20.0  # or 20 times where the baseline takes half a second or was not timed
# turns of a block that are allowed the full time of a slow candidate; no block needs more
SLOW_TURNS = 24
# the address space of a large case, as a multiple of its bytes: enough for a copy of eager with its
# intermediate results
HELD_TIMES = 24


def start_worker(
    context: StageContext, *, poison: bool = False, cores: Sequence[int] = ()
) -> Worker:
    """Start a fresh confined worker with the candidate loaded: on the timing core with one thread,
    or on `cores` with a thread each. It is confined to these cores unless it only verifies
    (`poison`), because races are looked for on all cores. The first worker of an evaluation
    determines which builds exist. A timed worker is forked from the same process as the
    reference's, which fixes the addresses of code and libraries: equal calls of 11 us differed by
    4 % without this, by 1 to 2 % with it (seen on a CPU)."""
    pinned = tuple(cores or context.task.timing_cpus)
    if poison:
        server, rules, spare = (
            context.place.server,
            _rules(context),
            context.machine.spare_worker,
        )
    else:
        server, rules = _timing_server(context, pinned)
        spare = context.machine.spare_timed_worker
    worker = spare.take(server, context.place.worker, rules, context.cancel) or server.worker(
        context.place.worker, rules, context.machine.scratch
    )
    worker.cancel, worker.on_build = context.cancel, context.builds.desk()
    source = memory_files.from_bytes("candidate", context.request.candidate.source.encode())
    try:
        fds = (
            [source]
            if context.compiled is None
            else [source, *worker.private_copies(context.compiled)]
        )
        if context.place.device:
            context.guard(
                "loading",
                worker,
                lambda: worker.ask("device", seconds=LOAD_SECONDS, **context.place.device),
            )
        count, moved = len(cores) or 1, pinned if poison else ()
        if poison:  # a text that asks for its processors gets the same answer everywhere
            _set_threads(context, worker, count, moved)
        else:
            worker.note_base()
        context.guard(
            "loading",
            worker,
            lambda: _load(worker, fds, poison=poison, forks=_may_fork(context)),
        )
        _set_threads(context, worker, count, moved)  # again: it may have changed both
        return worker
    except BaseException:
        worker.close()
        raise
    finally:
        os.close(source)


def _set_threads(context: StageContext, worker: Worker, count: int, cpus: Sequence[int]) -> None:
    context.guard(
        "loading",
        worker,
        lambda: worker.ask("threads", seconds=LOAD_SECONDS, count=count, cpus=cpus),
    )


def _load(worker: Worker, fds: list[int], *, poison: bool, forks: bool) -> None:
    """Load the candidate. Most of this is compiling, which does not disturb timing."""
    worker.send("load", fds, poison=poison, forks=forks)
    worker.wait(frames.OK, LOAD_SECONDS)


def _may_fork(context: StageContext) -> bool:
    """Return whether timed workers may start processes."""
    return context.place.mode == "compile" or context.task.family.FORKS


def _timing_server(
    context: StageContext, pinned: tuple[int, ...]
) -> tuple[ForkServer, Confinement]:
    """Return the fork server and the confinement of a timed worker."""
    family = context.task.family
    rules = replace(_rules(context), cpus=pinned, forks=_may_fork(context))
    if context.place.mode != "execute":
        return context.place.server, rules
    return context.machine.task_server(family, context.task.text.folder, level=context.level), rules


def end_worker(context: StageContext, worker: Worker) -> None:
    """End a worker. On a host the kernel cleans up in the background; on a device its memory must
    be free before anything queries the free memory."""
    if context.task.family.OWN_MEMORY:
        worker.close()
    else:
        context.machine.reaper.add(worker)


def prestart_timed(context: StageContext) -> None:
    """Start the next timed worker on a device ahead, without a candidate: creating its context
    takes as long as drawing inputs."""
    family = context.task.family
    if context.place.mode == "execute" and family.SLOW_START:
        server, rules = _timing_server(context, tuple(context.task.timing_cpus))
        context.machine.spare_timed_worker.start(
            server, context.place.worker, rules, context.machine.scratch, family.TORCH_DEVICE
        )


def _rules(context: StageContext) -> Confinement:
    """Return a candidate's confinement, with the address space that the largest case needs."""
    rules = context.machine.rules(context.level, context.task.family)
    case_bytes = max(
        (p.input_bytes + p.slot_bytes + p.state_bytes for p in context.task.pools.values()),
        default=0,
    )
    return replace(
        rules, memory_bytes=address_space(rules.memory_bytes, case_bytes, host_memory.limit_bytes())
    )


def address_space(granted: int, case_bytes: int, allowed: int) -> int:
    """Return the bytes that a candidate may map. granted: those of its device family, 0 for no
    limit. A large case gets more: its inputs and outputs are mapped several times, with guard
    pages, and its operators need intermediate results of the same size."""
    return max(granted, min(HELD_TIMES * case_bytes, allowed)) if granted else 0


def prestart(context: StageContext) -> None:
    """Start the worker that will check the next candidate ahead."""
    family = context.task.family
    if context.place.mode == "execute":
        context.machine.spare_worker.start(
            context.place.server,
            context.place.worker,
            _rules(context),
            context.machine.scratch,
            family.TORCH_DEVICE,
        )


def keep_compiled(context: StageContext, worker: Worker) -> int | None:
    """Keep what the checking worker has compiled for the timing workers, where kernels are compiled
    at the first launch. Returns a descriptor that the caller closes, None where there is
    nothing."""
    if not context.task.family.COMPILES_AT_LAUNCH:
        return None
    fd = memory_files.create("compiled", 0, fixed=False)

    def pack() -> bool:
        reply = worker.data(worker.ask("pack", [fd], seconds=LOAD_SECONDS))
        if (
            not isinstance(reply, dict)
            or not isinstance(reply.get("bytes"), int)
            or reply["bytes"] <= 0
        ):
            return False
        try:
            memory_files.seal(fd)
        except OSError as error:
            raise Interfered(
                "it keeps the file open in which it returned its compiled kernels"
            ) from error
        return True

    is_packed = False
    try:
        is_packed = context.guard("returning its compiled kernels", worker, pack)
        return fd if is_packed else None
    finally:
        if not is_packed:
            os.close(fd)


def prepare(
    context: StageContext,
    worker: Worker,
    pool: CasePool,
    count: int,
    before: Slots | None = None,
    instance: str = "",
) -> Slots:
    """Construct the candidate's model for a case and give it the reference's parameters. before:
    slots that this worker no longer uses. instance: see `construct`."""
    slots = bursts.slots(pool, count, before)

    def prepare() -> None:
        construct(context, worker, pool, slots, instance=instance)
        set_state(worker, pool, 0)

    context.guard(f"case {pool.name}: construction", worker, prepare)
    return slots


def construct(
    context: StageContext,
    worker: Worker,
    pool: CasePool,
    slots: Slots,
    key: str = "",
    instance: str = "",
    *,
    recording: bool = False,
) -> None:
    """Construct the candidate's model for a case. key: the key for its calls, by default the case's
    name. instance: a name under which the model is kept and reused, "" for none. recording: see
    model_calls.forward."""
    worker.ask(
        "case",
        [*worker.private_copies(pool.init_fd), *slots.fds],
        seconds=LOAD_SECONDS,
        case=pool.name,
        key=key or pool.name,
        init=pool.describe["init"],
        outputs=pool.outputs,
        slots=slots.count,
        slot_bytes=pool.slot_bytes,
        state=pool.describe["state"],
        seed=pool.seed,
        upstream=pool.upstream,
        trained=pool.trained,
        aliases=pool.aliases,
        device=context.task.family.TORCH_DEVICE,
        instance=instance,
        recording=recording,
    )


def set_state(
    worker: Worker, pool: CasePool, seed: int, key: str = "", *, partly: bool = False
) -> None:
    """Give a candidate's model the reference's parameters in the state with this seed. partly: in
    those of `parameter_states.draw_changes` write only the tensors that differ."""
    if pool.describe["state"]:
        layout = pool.describe["state_layout"]
        worker.ask(
            "state",
            worker.private_copies(pool.states[seed]),
            seconds=LOAD_SECONDS,
            key=key or pool.name,
            layout=layout,
            partly=partly and pool.changes_in_parts(seed),
        )


@dataclass(frozen=True)
class Deadlines:
    """The seconds that one side of a timed block may take. turn: for one turn, with everything
    between its calls. block: for all turns of a candidate together, since the device lock is
    held."""

    turn: float
    block: float


def deadlines(case: Case, pool: CasePool) -> Deadlines:
    """Return the deadlines of a block, including lazy initialisation at the first call."""
    calls = pool.calls + pool.warm_calls
    return Deadlines(
        call_seconds(case, calls), CALL_FLOOR_SECONDS + call_seconds(case, SLOW_TURNS * calls)
    )


def call_seconds(case: Case, calls: int, reference_s: float = 0.0) -> float:
    """Return the seconds that `calls` calls may take. reference_s: seconds of one call of the
    reference, used where no baseline was timed."""
    baseline_s = min(case.baselines_us.values(), default=0.0) / 1e6
    call_s = (
        min(CALL_FACTOR * baseline_s, max(CALL_FLOOR_SECONDS, SLOW_FACTOR * baseline_s))
        if baseline_s
        else SLOW_FACTOR * reference_s
    )
    return max(CALL_FLOOR_SECONDS, calls * call_s)
