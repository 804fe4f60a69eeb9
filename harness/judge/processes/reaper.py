"""Killed workers that need not be waited for at once: the kernel takes 30 ms to remove one, 100 ms
with a context on a GPU.

Until then their processes and their memory still count, so an evaluation that may have suffered
from them is repeated (health.py).
"""

from __future__ import annotations

from .worker import Worker

MOST = 4  # a candidate may order many builds, and each compiler's worker holds descriptors


class Reaper:
    """Holds killed workers. Not thread-safe."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def add(self, worker: Worker) -> None:
        """Kill a worker. Its descendants end with it in namespaces, and elsewhere as soon as its
        watcher runs. Unread messages are dropped at once, since descriptors in them would outlive
        it."""
        worker.kill()
        worker.sock.close()
        worker.release_device_memory()
        if len(self._workers) >= MOST:
            self.wait()
        self._workers.append(worker)

    @property
    def present(self) -> bool:
        """Whether any of them still exists."""
        return any(worker.pid for worker in self._workers)

    def wait(self) -> None:
        """Wait until all of them are gone."""
        while self._workers:
            self._workers.pop().close()
