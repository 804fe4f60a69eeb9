"""The server's words as the command line's: errors that name tools and their arguments name
commands and options here."""

from __future__ import annotations

import re

SPOKEN = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"job_wait\(job_id='j\d+'[^)]*\), then call again", "Wait a moment, then run it again"),
        (r", job_wait\(session_id=[^)]*\), or job_cancel them", ", then run it again"),
        (r", or close it with discard=true", ""),
        (r'Example: node_id="n5", diff_base="parent"', "Example: kevolve diff SESSION n5"),
        (r"Leave ask_id out to submit without one\.", ""),
        (r"session_open\(\.\.\., new=true\)", "`kevolve optimize TASK --new`"),
        (r"tree_view\(evaluation_id='(e\d+)'[^)]*\)", r"`kevolve show \1`"),
        (r"tree_view\(session_id='([^']+)'[^)]*\)", r"`kevolve tree \1`"),
        (r"session_open(\([^)]*\))?", "`kevolve optimize`"),
        (r"session_next(\([^)]*\))?", "`kevolve optimize --resume SESSION`"),
        (r"session_finish(\([^)]*\))?", "`kevolve export`"),
        (r"tree_view(\([^)]*\))?", "`kevolve show`"),
        (r"kernel_compile(\([^)]*\))?", "`kevolve compile`"),
        (r"kernel_(check|profile)(\([^)]*\))?", "`kevolve evaluate`"),
        (r"kernel_submit(\([^)]*\))?", "`kevolve optimize`"),
        (r"target_describe(\([^)]*\))?", "`kevolve doctor`"),
        (r"knowledge_search(\([^)]*\))?", "`kevolve knowledge search`"),
        (r"knowledge_read(\([^)]*\))?", "`kevolve knowledge read`"),
        (r"job_(wait|cancel)(\([^)]*\))?", "`kevolve sessions`"),
        (r"skill_record(\([^)]*\))?", "the tool of the server for skills"),
        (r"\bsession_id\b", "SESSION"),
        (r"\bnode_id\b", "NODE"),
        (r"\bparent_id\b", "the parent's id"),
        (r"\bdiff_with\b", "OTHER"),
        (r"\bevaluation_id\b", "the evaluation's id"),
        (r"\btask_(path|source)\b", "TASK"),
        (r"\bstart_(path|source)\b", "--start"),
        (r"\bpage_id\b", "PAGE"),
        (r"\bask_id\b", "the ask's id"),
        (r"\bjob_id\b", "the job's id"),
        (r"\bpython=", "--python"),
        (r"\bnew=true\b", "--new"),
    )
)


def spoken(text: str) -> str:
    """The text with commands and options in place of tools and arguments."""
    for pattern, said in SPOKEN:
        text = pattern.sub(said, text)
    return text
