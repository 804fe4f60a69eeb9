"""Ten exploits of the corpus as problems in KernelBench's form, so that two evaluators can be shown
the same."""

from __future__ import annotations

from tests.exploits.entries import Entry, entries, task_path

FOLDER = {"cpu": "cheats", "cuda": "cuda"}
TASKS = ("rows", "tiny")  # those in KernelBench's form that are timed
FAKE = 1.1  # they compute at most what the baseline does: a larger speed-up is not theirs


def every(target: str) -> list[Entry]:
    """Those of a corpus that can be shown to both."""
    return [
        e
        for e in entries(FOLDER[target])
        if e.task in TASKS and not e.name.startswith(("gap_", "honest_"))
    ]


def exploits(target: str, count: int) -> list[Entry]:
    """So many, evenly spread over the corpus: nobody chose them."""
    found = every(target)
    count = min(count, len(found))
    return [found[number * len(found) // count] for number in range(count)]


def task(entry: Entry) -> str:
    return task_path(entry.task).read_text()


# KernelBench gives a candidate no parameters: both draw their own from one seed
_SAME_PARAMETERS = """
_Own, _reference = ModelNew, {{}}
exec({reference!r}, _reference)


def ModelNew(*arguments):
    drawn = torch.get_rng_state()
    model = _Own(*arguments)
    torch.set_rng_state(drawn)
    model.load_state_dict(_reference["Model"](*arguments).state_dict())
    return model
"""


def with_parameters(entry: Entry) -> str:
    """The exploit, with the parameters that its reference draws where it is constructed."""
    return entry.source + _SAME_PARAMETERS.format(reference=task(entry))


def attacks_this_evaluator(entry: Entry) -> bool:
    """Whether what it does is done to this evaluator's own process, so that elsewhere it is an
    ordinary kernel."""
    return "from harness" in entry.source


def fooled(
    entry: Entry, outcome: str, speedup: float | None, *, claimed: bool, here: bool = True
) -> bool:
    """Whether an evaluator that ended so took it for what it is not. claimed: whether it calls the
    speed-up real. here: whether it is this one; others compare with eager execution, of which a
    kernel of the entry's own may be faster."""
    if outcome != "correct" or (not here and attacks_this_evaluator(entry)):
        return False
    fake = claimed and (here or "triton.jit" not in entry.source) and (speedup or 0.0) > FAKE
    return "correct" not in entry.expect or fake
