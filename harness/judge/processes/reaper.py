"""Workers that were killed and need not be waited for at once: a kernel takes 30 ms to clear one
away, 100 ms with a context on a GPU.

Until it has, their processes and their memory still count: whoever judges beside them judges again
what may have suffered (health.py).
"""

from __future__ import annotations

from .worker import Worker

MOST = 4  # a candidate may order many compilers, and each holds descriptors


class Reaper:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def add(self, worker: Worker) -> None:
        """Kill it. What it started dies with it in namespaces, and elsewhere as soon as its watcher
        runs. What it has sent and nobody read goes at once: descriptors among that would outlive
        it."""
        worker.kill()
        worker.sock.close()
        worker.link = worker.on_memory = None  # what it shared on a device is given back now
        if len(self._workers) >= MOST:
            self.wait()
        self._workers.append(worker)

    @property
    def present(self) -> bool:
        """Whether one of them is still there."""
        return any(worker.pid for worker in self._workers)

    def wait(self) -> None:
        """Until nothing is left of them."""
        while self._workers:
            self._workers.pop().close()
