"""Models by name, through pydantic-ai, what their failures mean, and how long to wait after one.
pydantic-ai is imported when a model is first needed."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Unavailable, UsageError
from kevolve_mcp.settings import API_KEY

from .base import AuthorUnusable

if TYPE_CHECKING:
    from pydantic_ai.models import Model

KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
SHOWN = 300  # characters of a provider's message that are shown

FaultKind = Literal["passing", "slow", "permanent", "refused"]


@dataclass(frozen=True)
class ModelName:
    """A model such as "openai:gpt-5". base_url: an OpenAI-compatible server that serves it; "" for
    the provider itself."""

    provider: str
    model: str
    base_url: str = ""

    @classmethod
    def parse(cls, name: str, base_url: str = "") -> ModelName:
        """Parse a name. Raises UsageError naming what is accepted."""
        provider, _, model = name.partition(":")
        if provider not in KEYS or not model.strip():
            raise UsageError(
                f"{name!r} is not a model", f"Accepted: {', '.join(f'{p}:MODEL' for p in KEYS)}."
            )
        if base_url and provider != "openai":
            raise UsageError(
                f"a server's URL can only be used with openai:MODEL, not with {provider}",
                "The server must support OpenAI's chat completions API.",
            )
        if base_url and not base_url.startswith(("http://", "https://")):
            raise UsageError(
                f"{base_url!r} is not the URL of a server",
                "",
                Action("give", setting="base_url", value="http://localhost:8000/v1"),
            )
        return cls(provider, model.strip(), base_url.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" + (f" at {self.base_url}" if self.base_url else "")


@dataclass(frozen=True)
class Fault:
    """A failed request. kind: "passing" (wait and try again), "slow" (the same, but the request may
    have been billed), "permanent" (fix it first), "refused" (the answer was withheld: another try
    may differ). after_s: how long the provider asked to wait."""

    kind: FaultKind
    message: str
    hint: str = ""
    after_s: float | None = None


def open_model(name: ModelName) -> Model:
    """Return the model, not yet connected. Raises Unavailable without the extra, AuthorUnusable
    without a key."""
    try:
        if name.base_url:
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.profiles.openai import OpenAIModelProfile
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            # max_tokens: every server supports it
            profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
            # a key of another service must not be sent there
            key = os.environ.get(API_KEY) or "none"
            provider = OpenAICompatibleProvider(
                "openai-compatible", base_url=name.base_url, api_key=key, profile=profile
            )
            return OpenAIChatModel(name.model, provider=provider)
        _check_key(name)
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model

        try:
            return infer_model(f"{name.provider}:{name.model}")
        except UserError as error:
            raise AuthorUnusable(
                f"{name} cannot be used: {error}",
                f"Example: {name.provider}:MODEL, as the provider names it.",
            ) from None
    except ImportError as error:
        raise Unavailable(
            f"the author {name} needs pydantic-ai ({error.name or 'a package of it'} is not "
            "installed)",
            "Install it: pip install 'kevolve-mcp[llm]', or with uvx: --from 'kevolve-mcp[llm]'.",
        ) from None


def _check_key(name: ModelName) -> None:
    if not any(os.environ.get(key) for key in KEYS[name.provider]):
        first = KEYS[name.provider][0]
        raise AuthorUnusable(
            f"{name.provider} needs a key, and the environment variable "
            f"{' or '.join(KEYS[name.provider])} is not set",
            f"export {first}=…; keys are only read from the environment, never from arguments or "
            "files.",
        )


def fault(error: Exception, name: ModelName) -> Fault | None:
    """Return what a failed request means, None for an exception that is not the provider's."""
    from pydantic_ai import exceptions as e

    said = _said(error)
    after = getattr(error, "retry_after", None)
    if isinstance(error, e.ContentFilterError):
        return Fault("refused", f"{name} withheld its answer: {said}")
    if isinstance(error, e.UnexpectedModelBehavior):
        return Fault("refused", f"{name} gave an answer that cannot be read: {said}")
    if isinstance(error, e.ModelAuthenticationError):
        return Fault("permanent", f"{name} refused the key: {said}", _key_hint(name))
    if isinstance(error, e.ModelQuotaExceededError):
        return Fault(
            "permanent",
            f"{name}: the account's quota or credit is used up: {said}",
            "Top it up, then resume.",
        )
    if isinstance(error, e.ModelNotFoundError):
        return Fault("permanent", f"the provider does not know {name}: {said}", _name_hint(name))
    if isinstance(error, e.ModelContextWindowExceededError):
        return Fault(
            "permanent",
            f"an ask is too long for {name}: {said}",
            "Choose a model with a larger context window.",
        )
    if isinstance(error, (e.ModelTimeoutError, e.ModelRequestTimeout)):
        return Fault("slow", f"{name} did not answer in time", _reach_hint(name), after)
    if isinstance(error, e.ModelRequestRejectedError):
        return Fault(
            "permanent",
            f"{name} rejected the request: {said}",
            "See docs/authors.md for what is sent.",
        )
    # rate limits, overload, failures, lost connections, and unknown errors
    if isinstance(error, e.ModelAPIError):
        return Fault("passing", f"{name}: {said}", _reach_hint(name), after)
    if isinstance(error, e.UserError):
        return Fault("permanent", f"{name} cannot be used: {said}", _name_hint(name))
    return None


def _said(error: Exception) -> str:
    """The provider's message, shortened, without any key of this environment."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    words = inner.get("message") if isinstance(inner, dict) else None
    text = str(words or body or getattr(error, "message", "") or error)
    for key in (API_KEY, *(k for keys in KEYS.values() for k in keys)):
        if len(secret := os.environ.get(key, "")) >= 8:
            text = text.replace(secret, f"<{key}>")
    line = " ".join(text.split())
    line = line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
    return f"HTTP {status}: {line}" if status else line


def _key_hint(name: ModelName) -> str:
    keys = API_KEY if name.base_url else " or ".join(KEYS[name.provider])
    return f"Set {keys} to a key with access to this model, then resume."


def _name_hint(name: ModelName) -> str:
    if name.base_url:
        return f"{name.base_url}/models lists the models served; the URL usually ends in /v1."
    return f"Use the model's name as in {name.provider}'s list of models."


def _reach_hint(name: ModelName) -> str:
    where = name.base_url or name.provider
    return f"Check that {where} is reachable and working, then resume."


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with jitter: after the n-th failure in a row the pause is between half
    and all of min(first_s * 2**(n-1), longest_s), or as long as the provider asked for. patience_s:
    how long a provider may keep failing before the author gives up; stranger_patience_s: the same
    for one that has never answered."""

    first_s: float = 1.0
    longest_s: float = 60.0
    patience_s: float = 600.0
    stranger_patience_s: float = 60.0

    def pause(
        self, failures: int, random_source: random.Random, retry_after: float | None = None
    ) -> float:
        """Return the seconds to wait after this many failures in a row (1 or more). retry_after:
        the provider's Retry-After."""
        whole = min(self.first_s * 2.0 ** min(failures - 1, 30), self.longest_s)
        return max(retry_after or 0.0, random_source.uniform(whole / 2, whole))
