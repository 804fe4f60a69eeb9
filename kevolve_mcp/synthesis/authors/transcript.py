"""What a command printed, kept in a file of bounded size: its beginning and its end."""

from __future__ import annotations

from pathlib import Path

HEAD = 256 * 1024
TAIL = 256 * 1024


class Transcript:
    """Bytes as they come; `save` writes them. Never holds more than HEAD + 2 * TAIL bytes."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * TAIL:
            self._cut()

    def _cut(self) -> None:
        over = len(self._tail) - TAIL
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        """All that is kept, the gap marked."""
        self._cut()
        gap = f"\n[… {self._dropped:,} bytes left out …]\n".encode() if self._dropped else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode(errors="replace")

    def last_line(self, limit: int = 200) -> str:
        """The last line that says anything; "" without one."""
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return lines[-1][:limit] if lines else ""

    def save(self, folder: Path, name: str, heading: str) -> Path:
        """Into folder/name.log, or name-2.log where that is taken; the path."""
        folder.mkdir(parents=True, exist_ok=True)
        number, path = 1, folder / f"{name}.log"
        while path.exists():
            number += 1
            path = folder / f"{name}-{number}.log"
        path.write_text(f"{heading}\n\n{self.text()}", encoding="utf-8")
        return path
