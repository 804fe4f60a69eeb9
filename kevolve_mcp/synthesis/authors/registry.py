"""Authors by name: the built-in ones, ready-made commands for the agent programs of vendors, as
their documentation describes running them without a person, and those of the entry point group
"kevolve.authors".

The vendors' commands change with their programs' releases; `--author "cmd: …"` with the user's own
command always works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound, UsageError

from .base import Author
from .command import LIMIT_S, CommandAuthor
from .llm import LLMAuthor, user_prices
from .offline import OfflineAuthor
from .providers import KEYS, ModelName

PROMPT = (
    "Read README.md and do what it says: read ask.md, then write candidate.py and answer.json into "
    "this folder. Work only in this folder and ask no questions."
)

# Each may read and write files of its folder; where the program has an option for it, it may only
# run kevolve.
VENDORS: Mapping[str, str] = {
    "claude": (
        f'claude -p "{PROMPT}" --permission-mode acceptEdits --allowedTools '
        '"Read,Write,Edit,Glob,Grep,Bash(kevolve:*)"'
    ),
    "codex": f'codex exec --sandbox workspace-write --skip-git-repo-check "{PROMPT}"',
    "gemini": f'gemini -p "{PROMPT}" --approval-mode auto_edit --skip-trust',
}


GROUP = "kevolve.authors"
_COMMAND = f"{CommandAuthor.name}:"


@dataclass(frozen=True)
class AuthorOptions:
    """The options of a run for its author; each author uses those that concern it. skills: whether
    the offline author may instantiate skills. base_url, price_in, price_out (US dollars per million
    tokens): for models. limit_s: of one request or run, None for the author's default. transcripts,
    kevolve, guide: for commands, see CommandAuthor. usd_capped: whether the run limits money.
    listen: called with remarks for the user."""

    skills: bool = True
    base_url: str = ""
    price_in: float | None = None
    price_out: float | None = None
    limit_s: float | None = None
    transcripts: Path | None = None
    kevolve: tuple[str, ...] = ()
    guide: str = ""
    usd_capped: bool = False
    listen: Callable[[str], None] | None = None


def author_names() -> tuple[str, ...]:
    """Return all names that `choose_author` accepts, sorted; MODEL and COMMAND are placeholders."""
    models = (f"{provider}:MODEL" for provider in KEYS)
    return tuple(
        sorted(
            {
                OfflineAuthor.name,
                f"{_COMMAND} COMMAND",
                *models,
                *VENDORS,
                *(e.name for e in entry_points(group=GROUP)),
            }
        )
    )


def choose_author(name: str, options: AuthorOptions | None = None) -> Author:
    """Return the author that `--author` names. Raises NotFound for an unknown one, UsageError for
    options that it does not take, and what its constructor raises."""
    o = options or AuthorOptions()
    is_model = name.partition(":")[0] in KEYS
    if not is_model and (o.base_url or o.price_in is not None or o.price_out is not None):
        raise UsageError(
            f"a server's URL and prices only apply to models, not to {name!r}",
            "",
            Action("give", "names one", setting="author", value="openai:MODEL"),
        )
    limit_s = LIMIT_S if o.limit_s is None else o.limit_s
    if is_model:
        prices = user_prices(o.price_in, o.price_out)
        model = ModelName.parse(name, o.base_url)
        return LLMAuthor(
            model, prices=prices, usd_capped=o.usd_capped, limit_s=limit_s, listen=o.listen
        )
    if name.startswith(_COMMAND) or name in VENDORS:
        command = VENDORS.get(name) or name.removeprefix(_COMMAND)
        return CommandAuthor(
            command,
            transcripts=o.transcripts,
            kevolve=o.kevolve,
            guide=o.guide,
            limit_s=limit_s,
            listen=o.listen,
        )
    if name == OfflineAuthor.name and not o.skills:
        return OfflineAuthor(skills=())
    return make_author(name)


def make_author(name: str, **options: Any) -> Author:
    """Create the author of a plain name, built-in or from a third party; options go to its
    constructor. Raises NotFound for an unknown name, UsageError when a third-party entry point does
    not give an Author."""
    factory: Callable[..., Any] | None = OfflineAuthor if name == OfflineAuthor.name else None
    if factory is None:
        entries = [e for e in entry_points(group=GROUP) if e.name == name]
        if not entries:
            raise NotFound(
                f"there is no author {name!r}", f"Known authors: {', '.join(author_names())}."
            )
        factory = entries[0].load()
    author = factory(**options)
    if not isinstance(author, Author):
        raise UsageError(
            f"the entry point {name!r} of {GROUP} gives {type(author).__name__}, not an Author",
            "It must name a subclass of kevolve_mcp.synthesis.authors.Author.",
        )
    return author
