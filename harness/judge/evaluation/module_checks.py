"""Checks of a candidate's module as programs use it: parameters and buffers after a call, two
instances side by side, and one instance with the shapes of several cases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...types import Case
from ...wire import memory_files
from ...workers.process_settings import NUMBERS
from .. import candidate_state
from ..candidate_workers import LOAD_SECONDS, construct, prepare, set_state
from ..correctness import oracle
from ..correctness.distance import same_bits
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet, LeftValue
from ..exchange.slots import Slots
from ..failures import Failure
from ..processes.worker import Worker
from ..stage_context import StageContext
from .case_check import CaseCheck, most_held_calls

if TYPE_CHECKING:
    import torch

# bytes of parameters and buffers above which only those that the reference updates are compared, no
# second instance is constructed, and nothing is called in evaluation mode; bytes of a case's set
# above which it shares no instance
MOST_STATE_BYTES, MOST_SET_BYTES = 256 << 20, 1 << 30


def check_settings(check: CaseCheck) -> None:
    """Call it once and compare the settings of its process afterwards with those before, but for
    those that the reference's call changes as well. Raises Failure."""
    doing = "what a call leaves in its process"

    def settings(*, before: bool) -> dict[str, Any]:
        reply = check.worker.ask("settings", seconds=LOAD_SECONDS, before=before)
        found: Any = check.worker.data(reply)
        return dict(found) if isinstance(found, dict) else {}

    expected = check.guard(doing, partial(settings, before=True))
    check.run_burst([check.pool.checking[0][1]], [0], doing)
    found = check.guard(doing, partial(settings, before=False))
    changes = check.pool.describe["changes"]
    draws = any(NUMBERS in name for name in changes)  # from whichever generator
    for name, value in expected.items():
        free = name in changes or (draws and NUMBERS in str(name))
        if found.get(name) != value and not free:
            _fail(
                check,
                f"a call changes {str(name)[:80]} in the process of its caller; the reference's "
                "call does not",
            )


def check_state(check: CaseCheck) -> None:
    """Compare the parameters and buffers after one call: those that the reference's forward updates
    with the reference's, all others with their initial values. Raises Failure."""
    pool, drawer = check.pool, check.context.task.drawer
    updated = pool.updated
    small = pool.state_bytes <= MOST_STATE_BYTES
    names = list(pool.describe["state"]) if small else updated
    if not names:
        return
    _, input_set = pool.checking[0]
    doing = "what a call leaves"
    check.guard(doing, lambda: set_state(check.worker, pool, 0))
    check.run_burst([input_set], [0], doing)
    initial = drawer.initial_state(pool)
    values = check.guard(
        doing,
        lambda: candidate_state.ask(
            check.worker, pool.name, {name: initial[name] for name in names}
        ),
    )
    for name in names:
        if name not in updated and not same_bits(values[name], initial[name]):
            _fail(check, f"a call changes {name}; the reference's call leaves it unchanged")
    _compare_updated(check, values, drawer.updates.after_one(pool, input_set) if updated else {})
    check.guard(doing, lambda: set_state(check.worker, pool, 0))


def _check_updated(
    check: CaseCheck,
    key: str,
    doing: str,
    state: int,
    calls: Sequence[InputSet],
    *,
    manner: str = "",
) -> None:
    """Compare what calls on these sets, from a state of the parameters, have left in the model with
    this key, where the reference updates something. manner: of the calls; of such, what may have
    been decided otherwise is not compared. Raises Failure."""
    drawer = check.context.task.drawer
    if not check.pool.updated:
        return
    initial = drawer.initial_state(check.pool)
    like = {name: initial[name] for name in check.pool.updated}
    values = check.guard(doing, lambda: candidate_state.ask(check.worker, key, like))
    left = drawer.updates.after(check.pool, state, calls, evaluating=manner == "in_eval")
    if manner:
        left = {name: value for name, value in left.items() if not value.unsure}
    _compare_updated(check, values, left, f" ({doing})")


def _compare_updated(
    check: CaseCheck,
    values: Mapping[str, torch.Tensor],
    left: Mapping[str, LeftValue],
    where: str = "",
) -> None:
    initial = check.context.task.drawer.initial_state(check.pool) if left else {}
    for name, reference in left.items():
        finding = oracle.compare(
            values[name], reference.expected, reference.allowance, reference.framework
        )
        if finding.signal is None:
            continue
        unchanged = same_bits(values[name], initial[name])
        detail = "it is left unchanged" if unchanged else finding.detail
        text = f"the reference updates {name} in each call, but here{where} {detail}"
        _fail(check, text, finding)


def _call_in_manner(
    check: CaseCheck, sets: list[InputSet], order: list[int], doing: str, manner: str
) -> None:
    """Call it in a manner, from its first parameters if it updates some, and compare what it
    returns. What it updates as well, if the inputs are plain: others may turn a decision, and they
    are there for their results. Raises Failure."""
    if check.pool.updated:
        check.guard(doing, lambda: set_state(check.worker, check.pool, 0))
    check.call_again(sets, order, doing, manner=manner)
    calls = [sets[index] for index in order]
    small = check.pool.set_bytes <= MOST_SET_BYTES  # the reference makes these calls, too
    if small and all(each.family == "dense" for each in calls):
        _check_updated(check, check.pool.name, doing, 0, calls, manner=manner)


def check_places(check: CaseCheck) -> None:
    """Call it on inputs that take the places of earlier ones: new tensors where others were, then
    the same tensors with other contents. Compares results and state. Raises Failure."""
    sets = [input_set for state, input_set in check.pool.checking if state == 0][:2]
    if len(sets) == 2 and check.pool.set_bytes <= MOST_SET_BYTES:
        doing = "inputs in the places of earlier ones"
        _call_in_manner(check, sets, [0, 1, 0], doing, "in_place")


def check_manners(check: CaseCheck) -> None:
    """Call it in another thread of its process (unless an interpreter runs it), and in evaluation
    mode where the reference returns the same in both. Compares results and state. Raises
    Failure."""
    sets = [input_set for state, input_set in check.pool.checking if state == 0][:2]
    order = list(range(len(sets)))
    if check.context.place.mode == "execute":
        manner = _call_in_a_thread(check, sets, order)
        if (changed := check.pool.changed) is not None:
            state, input_set = changed
            doing = "called in another thread than before, with other parameters"
            check.guard(doing, partial(set_state, check.worker, check.pool, state))
            check.call_once(input_set, doing, manner=manner)
            check.guard(doing, lambda: set_state(check.worker, check.pool, 0))
    small = (  # the reference is copied for this
        check.pool.set_bytes <= MOST_SET_BYTES and check.pool.state_bytes <= MOST_STATE_BYTES
    )
    if small and check.context.task.drawer.updates.ignores_modes(check.pool):
        doing = "called in evaluation mode, in which the reference returns the same"
        _call_in_manner(check, sets, order, doing, "in_eval")


def _call_in_a_thread(check: CaseCheck, sets: list[InputSet], order: list[int]) -> str:
    """Call it in a new thread, and where that ends with an error, in one with its caller's context
    variables: some settings that are made once for a process (Triton's allocator) are kept in such
    a variable. A plain thread comes first, since its caller would see an error, but no wrong
    result. Returns the manner in which it works. Raises Failure, the first one."""
    doing = "called in another thread than before"
    try:
        _call_in_manner(check, sets, order, doing, "in_a_thread")
        return "in_a_thread"
    except Failure as failure:
        if all(signal.name != "crash.exception" for signal in failure.signals):
            raise
        try:
            _call_in_manner(check, sets, order, doing, "in_a_context")
            return "in_a_context"
        except Failure:
            raise failure from None


def check_streams(check: CaseCheck) -> None:
    """Call it while its inputs are on their way, in another stream than the device's default one,
    as programs do that overlap work or capture a graph, and in the default one. Raises Failure."""
    sets = [input_set for state, input_set in check.pool.checking if state == 0][:2]
    most_bytes = (1 + len(sets)) * check.pool.set_bytes  # a copy is kept for each call
    if check.pool.shared and len(sets) == 2 and most_bytes <= MOST_SET_BYTES:
        doing = (
            "called in another stream than the default one, or while work is queued before it "
            "(work in torch.cuda.current_stream(), and let it wait for what runs in streams of "
            "your own)"
        )
        # the other set's results may lie in memory that is used again
        _call_in_manner(check, sets, [0, 1, 0], doing, "in_a_stream")


def check_two_instances(check: CaseCheck) -> None:
    """Call two more instances with different parameters in turn while the first one exists; then
    let each replace the other one, in its place if possible (see workers.object_places). This
    reveals state kept outside an instance. Raises Failure."""
    pool, worker = check.pool, check.worker
    changed = pool.changed
    if changed is None or pool.state_bytes > MOST_STATE_BYTES:
        return
    doing = "two instances"
    pairs = [(f"{pool.name}/{n}", *pair) for n, pair in enumerate([changed, pool.checking[0]])]

    def build(*instances: tuple[str, int, InputSet]) -> None:
        for key, state, _ in instances:
            construct(check.context, worker, pool, check.slots, key)
            set_state(worker, pool, state, key)

    check.guard(f"{doing}, construction", lambda: build(*pairs))
    order = (*pairs, pairs[0])
    for key, _, input_set in order:
        check.call_once(input_set, f"{doing} with parameters of their own", key=key)
    for key, state, _ in pairs:
        _check_updated(check, key, doing, state, [each for k, _, each in order if k == key])
    _check_evaluation(check, pairs)
    for key, *_ in pairs:
        check.drop(key)
    key = f"{pool.name}/again"
    with check.all_threads(doing):
        for _, state, input_set in (*pairs, *pairs):
            check.guard(f"{doing}, construction", partial(build, (key, state, input_set)))
            check.call_once(input_set, "an instance in the place of one that is gone", key=key)
    check.drop(key)


def _check_evaluation(check: CaseCheck, pairs: Sequence[tuple[str, int, InputSet]]) -> None:
    """Call two instances in evaluation mode, then the first one with the other's parameters, where
    the reference returns the same in this mode: what a model keeps from its first call there may be
    another one's, or out of date. pairs: key, state and inputs of each. Raises Failure."""
    pool, updates = check.pool, check.context.task.drawer.updates
    if pool.set_bytes > MOST_SET_BYTES:
        return
    if not all(updates.ignores_modes(pool, state) for _, state, _ in pairs):
        return
    doing = "called in evaluation mode, in which the reference returns the same,"
    two = "as one of two instances"
    (first, *_), (_, state, input_set) = pairs
    again = (first, state, input_set, "with other parameters than before")
    for key, its_state, its_set, where in (*((*pair, two) for pair in pairs), again):
        check.guard(doing, partial(set_state, check.worker, pool, its_state, key))
        check.call_once(its_set, f"{doing} {where}", key=key, manner="in_eval")


def check_without_gradients(check: CaseCheck) -> None:
    """For a case with gradients, call one model where none are recorded, then where they are, with
    the parameters of the call before, which reveals what was kept without them; the other way
    round; then with inputs that require none. Raises Failure."""
    context, worker = check.context, check.worker
    pool = context.task.drawer.unrecorded(check.pool)
    if pool is None:
        return
    name = pool.name
    count = most_held_calls(context, pool)
    slots = prepare(context, worker, pool, count, check.slots, name)
    plain = CaseCheck(context, replace(check.case, name=name), pool, worker, slots)
    plain.check_sets()
    if plain.mismatches.wrong:
        plain.fail()

    def build(other: CaseCheck, key: str, *, recording: bool = False) -> None:
        construct(context, worker, other.pool, other.slots, key, name, recording=recording)

    def renew() -> None:
        # writes the parameters, and so renews what a model keeps by their versions
        set_state(worker, pool, 0, name)

    with_them, data = f"{name}, recorded", f"{name}, with data"
    check.guard("calls with gradients", lambda: build(check, with_them))
    check.guard("calls with gradients", lambda: build(plain, data, recording=True))
    recorded = check, with_them, "a call with gradients"
    unrecorded = plain, name, "a call without gradients"
    of_data = plain, data, "a call with inputs that require no gradients"
    for calls in ([unrecorded, recorded], [recorded, unrecorded, recorded], [of_data]):
        check.guard(calls[0][2], renew)
        before = ""
        for other, key, doing in calls:
            other.call_once(other.pool.checking[0][1], f"{doing}{before}", key=key)
            before = f", after {doing}"
    check.guard("calls without gradients", renew)
    plain.call_once(pool.checking[0][1], "a call without gradients", key=name)
    _check_updated(plain, name, "a call without gradients", 0, [pool.checking[0][1]])
    for key in (with_them, data, name):
        check.drop(key)


def check_shared_instances(context: StageContext, worker: Worker) -> None:
    """Call one instance on all cases that construct it in the same way, then on the first of them
    again, which reveals state kept from another shape. Raises Failure."""
    for number, cases in enumerate(_cases_alike(context)):
        if len(cases) > 1:
            _check_one_instance(context, worker, cases, f"shared/{number}")


def check_different_instances(context: StageContext, worker: Worker) -> None:
    """Call instances that were constructed with different arguments in turn, while all exist, which
    reveals what is kept of the arguments outside an instance. Raises Failure."""
    pools, total = list[tuple[Case, CasePool]](), 0
    for case, *_ in _cases_alike(context):
        pool = context.task.pools[case.name]
        total += pool.set_bytes + pool.state_bytes
        if total <= MOST_SET_BYTES:
            pools.append((case, pool))
    if len(pools) < 2:
        return
    slots: Slots | None = None
    checks = []
    for case, pool in pools:
        slots = prepare(context, worker, pool, bursts.CHECK_CALLS, slots)
        checks.append(CaseCheck(context, case, pool, worker, slots))
    for check in (*checks, *checks):
        check.call_once(check.pool.checking[0][1], "instances that were constructed otherwise")
    for check in checks:
        check.drop(check.case.name)


def _check_one_instance(
    context: StageContext, worker: Worker, cases: Sequence[Case], instance: str
) -> None:
    slots: Slots | None = None
    met: list[str] = []
    for case in (*cases, cases[0]):
        pool = context.task.pools[case.name]
        slots = prepare(context, worker, pool, bursts.CHECK_CALLS, slots, instance)
        check = CaseCheck(context, case, pool, worker, slots)
        _, input_set = pool.checking[0]
        after = f", after {' and '.join(met[-2:])}" if met else ""
        doing = f"one instance for several cases{after}"
        check.call_once(input_set, doing)
        _check_updated(check, case.name, doing, 0, [input_set])
        met.append(case.name)
    for key in (*(case.name for case in cases), instance):
        check.drop(key)


def _cases_alike(context: StageContext) -> list[list[Case]]:
    """Return the cases that are not too large, those that construct their instance alike
    together."""
    alike: dict[str, list[Case]] = {}
    for case in context.cases:
        pool = context.task.pools[case.name]
        if pool.set_bytes + pool.state_bytes <= MOST_SET_BYTES:
            alike.setdefault(_construction(pool), []).append(case)
    return list(alike.values())


def _construction(pool: CasePool) -> str:
    """Return a text that is equal for cases with equal constructor arguments, parameters and
    buffers."""
    init = memory_files.read_all(pool.init_fd)
    return json.dumps([pool.describe["init"], pool.describe["state"], init.hex()])


def _fail(check: CaseCheck, text: str, finding: oracle.Finding | None = None) -> None:
    finding = finding or oracle.Finding("wrong.state", 1.0, 0.0, 0.0, text)
    check.mismatches.wrong.append(("wrong.state", f"case {check.pool.name}: {text}", finding))
    check.fail()
