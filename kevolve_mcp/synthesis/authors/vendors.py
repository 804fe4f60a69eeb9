"""Ready-made commands for the agent programs of vendors, as their documentation describes running
them without a person.

They change with their programs' releases; `--author "cmd: …"` with a command of one's own always
works.
"""

from __future__ import annotations

from collections.abc import Mapping

PROMPT = (
    "Read README.md and do what it says: read ask.md, then write candidate.py and answer.json into "
    "this folder. Work only in this folder and ask nothing back."
)

# Each may read and write files of its folder; what runs programs is limited to kevolve where the
# program can say so.
VENDORS: Mapping[str, str] = {
    "claude": (
        f'claude -p "{PROMPT}" --permission-mode acceptEdits --allowedTools '
        '"Read,Write,Edit,Glob,Grep,Bash(kevolve:*)"'
    ),
    "codex": f'codex exec --sandbox workspace-write --skip-git-repo-check "{PROMPT}"',
    "gemini": f'gemini -p "{PROMPT}" --approval-mode auto_edit --skip-trust',
}
