"""Line numbers of the definitions in a task's text, for errors, found without running it."""

from __future__ import annotations

import ast

FORWARD = ("Model.forward", "Model", "reference")
CONSTRUCTOR = ("Model.__init__", "Model", "reference")
_ENDINGS = {
    "_exit",
    "exit",
    "quit",
    "abort",
    "kill",
    "killpg",
    "raise_signal",
    "execv",
    "execve",
    "execvp",
}


class Lines:
    """Where names are defined: `at(...)` gives "task.py, line 7". Always line 1 if the text is not
    valid Python."""

    def __init__(self, source: str, filename: str) -> None:
        self.filename = filename
        self.last = max(1, len(source.splitlines()))
        # "Model", "Model.forward", "CASES", "CASES['large']" -> line
        self.first: dict[str, int] = {}
        self.ending = 0  # line of the first call that ends a process, 0 without one
        try:
            tree = ast.parse(source)
            self._read(tree.body, "")
            calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        self.ending = min((c.lineno for c in calls if _callee(c) in _ENDINGS), default=0)

    def at(self, *names: str) -> str:
        """Return file and line of the first of the names that the text defines."""
        return f"{self.filename}, line {next((self.first[n] for n in names if n in self.first), 1)}"

    @property
    def end(self) -> str:
        """File and last line: where a missing part can be added."""
        return f"{self.filename}, line {self.last}"

    def _read(self, body: list[ast.stmt], scope: str) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                self.first.setdefault(scope + node.name, node.lineno)
                if isinstance(node, ast.ClassDef) and not scope:
                    self._read(node.body, f"{node.name}.")
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.first.setdefault(scope + (alias.asname or alias.name), node.lineno)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self.first.setdefault(scope + target.id, node.lineno)
                        self._entries(scope + target.id, node.value)
            else:  # if, try, with …: their bodies define names as well
                for inner in ("body", "orelse", "handlers", "finalbody"):
                    self._read(
                        [s for s in getattr(node, inner, []) if isinstance(s, ast.stmt)], scope
                    )

    def _entries(self, name: str, value: ast.expr | None) -> None:
        entries = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
        for entry in entries:
            if isinstance(entry, ast.Constant):
                self.first.setdefault(f"{name}[{entry.value!r}]", entry.lineno)


def _callee(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
