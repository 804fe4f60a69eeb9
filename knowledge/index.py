"""The index of all pages: `python -m knowledge.index` rewrites knowledge/index.md, `--check` only
tells whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .library import BUILTIN, Library
from .page import FOLDERS, Page

_HEADINGS = {
    "constraints": "Constraints: what a candidate may and may not do",
    "guidance": "Guidance: how kernels become fast and stay right",
    "hardware": "Hardware: facts by device, from the vendor to the product",
    "sample": "Samples: complete tasks with complete candidates, verified and timed",
    "skill": "Skills: patterns with templates and evidence",
}


def render(library: Library, *, files: bool = False) -> str:
    """Return the index as Markdown: every page with its summary, then the pages by signal. files:
    whether to link to files, for the copy on disk, instead of page ids."""
    lines = ["# Index", "", "Every page in one line, then the pages that each signal leads to.", ""]
    for category, heading in _HEADINGS.items():
        lines += [
            f"## {heading}",
            "",
            *_tree([p for p in library.pages() if p.category == category], files),
            "",
        ]
    lines += ["## By signal", ""]
    by_signal: dict[str, list[Page]] = {}
    for page in library.pages():
        for signal in page.signals:
            by_signal.setdefault(signal, []).append(page)
    for signal in sorted(by_signal):
        found = sorted(by_signal[signal], key=lambda p: (p.signals.index(signal), p.id))
        lines.append(f"- `{signal}`: {', '.join(f'[{p.id}]({_address(p, files)})' for p in found)}")
    return "\n".join(lines) + "\n"


def _tree(pages: list[Page], files: bool) -> Iterator[str]:
    if not pages:
        yield "(none yet)"
    group = ""
    for page in pages:
        folder = page.id.rpartition("/")[0]
        if folder not in FOLDERS and folder != group:
            yield f"- **{folder}/**"
        group = folder
        indent = "" if folder in FOLDERS else "  "
        holds = f" ({', '.join(f'`{t}`' for t in page.targets)})" if page.targets else ""
        yield (
            f"{indent}- [{page.title}]({_address(page, files)}) `{page.id}`{holds}: {page.summary}"
        )


def _address(page: Page, files: bool) -> str:
    if not files:
        return page.id
    return f"{page.id}/skill.md" if page.category == "skill" else f"{page.id}.md"


def main(arguments: list[str]) -> int:
    """Update or check index.md; return 0 when it is (now) current, 1 when `--check` finds that it
    is not."""
    path = BUILTIN / "index.md"
    text = render(Library.builtin(), files=True)
    current = path.exists() and path.read_text(encoding="utf-8") == text
    if "--check" in arguments:
        print(
            "knowledge/index.md is current"
            if current
            else "knowledge/index.md is stale: run python -m knowledge.index"
        )
        return 0 if current else 1
    path.write_text(text, encoding="utf-8")
    print("knowledge/index.md: no change" if current else "knowledge/index.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
