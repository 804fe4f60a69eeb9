"""The processor time of a worker's process, and the time that it waited for a core, both as the
kernel counts them, independently of the worker."""

from __future__ import annotations

import time

from ...wire import frames
from ..processes.freezing import children, fields_of, read
from ..processes.worker import Worker


class ProcessBill:
    """The bill of the process that runs a worker's calls. process: its id, as this process sees
    it."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self.process = worker, calling_process(worker)
        # CPUCLOCK_SCHED of a process: include/linux/posix-timers_types.h of the kernel
        self._clock = (~self.process << 3) | 2

    def used_ns(self) -> int:
        """Return the processor time so far, exact while the process does not run. Raises what
        Worker.wait raises."""
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:  # it has ended
            self._worker.wait(frames.OK, 1.0)
            raise

    def usage(self) -> tuple[int, int]:
        """Return processor time and minor faults so far."""
        state = fields_of(self.process)
        return self.used_ns(), int(state[7]) if state else 0

    def waiting_ns(self) -> int:
        """Return how long the process, and this thread that polls it, have been ready to run
        without a core, together."""
        each = (read(f"/proc/{of}/schedstat").split() for of in (self.process, "thread-self"))
        return sum(int(fields[1]) for fields in each if len(fields) > 1)


def calling_process(worker: Worker) -> int:
    """Return the process that runs the calls: in a namespace the first child of its init, which
    starts no other."""
    pid = worker.pid
    return next(iter(children(pid)), pid) if worker.root == pid else pid
