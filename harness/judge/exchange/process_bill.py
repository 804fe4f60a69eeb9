"""What the kernel bills the process of a worker with, and how long it kept it waiting: nothing of
it is the worker's word."""

from __future__ import annotations

import time

from ...wire import frames
from ..processes.freezing import children, fields_of, read
from ..processes.worker import Worker


class ProcessBill:
    """Of the process that runs a worker's calls, as this one counts."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self.process = worker, _calling_process(worker)
        # CPUCLOCK_SCHED of a process: include/linux/posix-timers_types.h of the kernel
        self._clock = (~self.process << 3) | 2

    def used_ns(self) -> int:
        """Processor time so far: exact while it does not run. Raises what Worker.wait raises."""
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:  # it has ended
            self._worker.wait(frames.OK, 1.0)
            raise

    def usage(self) -> tuple[int, int]:
        """Processor time and minor faults so far."""
        state = fields_of(self.process)
        return self.used_ns(), int(state[7]) if state else 0

    def waiting_ns(self) -> int:
        """How long the process was ready to run so far, and had no core; and this thread, which
        would have looked sooner."""
        each = (read(f"/proc/{of}/schedstat").split() for of in (self.process, "thread-self"))
        return sum(int(fields[1]) for fields in each if len(fields) > 1)


def _calling_process(worker: Worker) -> int:
    """The first child of a namespace's first process, which may start no other."""
    pid = worker.pid
    return next(iter(children(pid)), pid) if worker.root == pid else pid
