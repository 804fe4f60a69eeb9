"""The author that asks a model: with pydantic-ai's test models, and against a server on
loopback."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Unavailable, UsageError
from kevolve_mcp.synthesis.authors import (
    AskAllowance,
    AskContext,
    AuthorError,
    AuthorOptions,
    AuthorUnavailable,
    AuthorUnusable,
    Backoff,
    BudgetSpent,
    LLMAuthor,
    ModelName,
    Prices,
    StartView,
    author_names,
    choose_author,
)

from .helpers import ask, parent
from .model_server import Answer, ModelServer, Reply, asked, blocks, serving
from .test_answers import KERNEL

pytest.importorskip("pydantic_ai", reason="the extra [llm] is not installed")

from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

pytestmark = pytest.mark.anyio

NAME = ModelName("openai", "gpt-test")
GOOD = blocks(KERNEL, hypothesis="fewer passes", predicted_speedup=1.3, rationale="memory bound")
QUICK = Backoff(first_s=0.01, longest_s=0.02, patience_s=0.3, stranger_patience_s=0.3)
USED = RequestUsage(input_tokens=1000, output_tokens=200)


@pytest.fixture(autouse=True)
def _no_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing leaves this machine, and no key of the person who runs this is seen."""
    for key in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "KEVOLVE_API_KEY",
    ):
        monkeypatch.delenv(key, raising=False)
    with models.override_allow_model_requests(False):
        yield


def question(**changes: Any) -> AskContext:
    return replace(ask("improve", parent(1, KERNEL)), **{"text": "the text of the ask", **changes})


def scripted(
    *answers: str, usage: RequestUsage = USED
) -> tuple[FunctionModel, list[list[ModelMessage]]]:
    """A model that gives these answers in turn, and what it was asked."""
    seen: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(list(messages))
        return ModelResponse(parts=[TextPart(answers[len(seen) - 1])], usage=usage)

    return FunctionModel(answer), seen


async def test_an_answer_becomes_a_proposal_with_its_cost() -> None:
    model, seen = scripted(GOOD)
    proposal = await LLMAuthor(NAME, model=model, prices=Prices(1.0, 10.0)).propose(question())
    assert (proposal.source, proposal.language) == (KERNEL, "cpp")
    assert (proposal.hypothesis, proposal.predicted_speedup, proposal.rationale) == (
        "fewer passes",
        1.3,
        "memory bound",
    )
    assert proposal.cost.tokens == 1200
    assert proposal.cost.usd == pytest.approx(0.003)
    ((request,),) = seen
    assert [p.content for p in request.parts][1:] == ["the text of the ask"]  # type: ignore[union-attr]


async def test_a_test_model_that_says_nothing_useful_is_asked_twice_and_refused() -> None:
    author = LLMAuthor(NAME, model=TestModel(custom_output_text="I am a test."))
    with pytest.raises(AuthorError, match="no candidate file") as caught:
        await author.propose(question())
    assert caught.value.cost.tokens > 0
    assert not isinstance(caught.value, AuthorUnusable)


@pytest.mark.parametrize(
    "first", ["I'm sorry, I can't do that.", "", "```python\nclass ModelNew(\n```", "{not json"]
)
async def test_garbage_is_sent_back_once_with_the_reason(first: str) -> None:
    model, seen = scripted(first, GOOD)
    proposal = await LLMAuthor(NAME, model=model).propose(question())
    assert proposal.source == KERNEL
    assert proposal.cost.tokens == 2400
    assert len(seen[1]) == 3
    assert "cannot be used" in seen[1][2].parts[0].content  # type: ignore[union-attr, operator]


async def test_a_start_costs_nothing() -> None:
    model, seen = scripted()
    proposal = await LLMAuthor(NAME, model=model).propose(
        ask("start", start=StartView("x = 1", "user file"))
    )
    assert proposal.source == "x = 1"
    assert not proposal.cost
    assert not seen


async def test_what_is_not_counted_is_estimated() -> None:
    with loopback(lambda body, n: Reply(GOOD, usage=None)) as (_, author):
        proposal = await author().propose(question(text="x" * 3000))
    assert proposal.cost.tokens > 1000 + len(KERNEL) / 3


@pytest.mark.parametrize(
    ("allowance", "named"),
    [
        (AskAllowance(tokens=1500), "tokens"),
        (AskAllowance(usd=0.009), "usd"),
        (AskAllowance(tokens=0, usd=100), "tokens"),
    ],
)
async def test_nothing_is_asked_where_too_little_is_left(
    allowance: AskAllowance, named: str
) -> None:
    model, seen = scripted(GOOD)
    with pytest.raises(BudgetSpent) as caught:
        await LLMAuthor(NAME, model=model, prices=Prices(1.0, 10.0)).propose(
            question(text="x" * 3000, allowance=allowance)
        )
    assert named in caught.value.hint
    assert not seen


async def test_the_second_try_is_within_the_same_cap() -> None:
    model, seen = scripted("nonsense", GOOD)
    with pytest.raises(BudgetSpent) as caught:
        await LLMAuthor(NAME, model=model).propose(question(allowance=AskAllowance(tokens=2500)))
    assert len(seen) == 1
    assert caught.value.cost.tokens == 1200


async def test_the_output_is_limited_to_what_is_paid_for() -> None:
    with loopback(lambda body, n: Reply(GOOD)) as (server, author):
        await author().propose(question())
        await author().propose(question(allowance=AskAllowance(tokens=5000)))
        await author(prices=Prices(0.0, 10.0)).propose(question(allowance=AskAllowance(usd=0.02)))
    assert "max_tokens" not in server.requests[0]
    assert 3000 < server.requests[1]["max_tokens"] < 5000
    assert server.requests[2]["max_tokens"] == 2000


def test_a_cap_in_dollars_needs_a_price() -> None:
    with pytest.raises(AuthorUnusable, match="are not known") as caught:
        choose_author(
            "openai:gpt-test", AuthorOptions(base_url="http://127.0.0.1:9/v1", usd_capped=True)
        )
    assert caught.value.actions[0] == Action("give", setting="prices")
    priced = AuthorOptions(
        base_url="http://127.0.0.1:9/v1", usd_capped=True, price_in=0.0, price_out=0.0
    )
    assert isinstance(choose_author("openai:gpt-test", priced), LLMAuthor)


def test_known_models_have_their_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nothing")
    monkeypatch.setenv("GEMINI_API_KEY", "nothing")
    for name in ("openai:gpt-4o", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-pro"):
        assert isinstance(choose_author(name, AuthorOptions(usd_capped=True)), LLMAuthor)
    with pytest.raises(AuthorUnusable, match="are not known"):
        choose_author("openai:gpt-that-nobody-knows", AuthorOptions(usd_capped=True))


async def test_a_resumed_session_with_a_cap_that_cannot_bind_is_refused() -> None:
    model, seen = scripted(GOOD)
    with pytest.raises(AuthorUnusable, match="are not known"):
        await LLMAuthor(NAME, model=model).propose(question(allowance=AskAllowance(usd=1.0)))
    assert not seen


# over HTTP ----------------------------------------------------------------------------------------


class loopback:
    """A model server, requests to it allowed, and a maker of authors for it; all closed in the
    end."""

    def __init__(self, answer: Answer) -> None:
        self._serving = serving(answer)
        self._allowed = models.override_allow_model_requests(True)

    def __enter__(self) -> tuple[ModelServer, Callable[..., LLMAuthor]]:
        self._allowed.__enter__()
        server = self._serving.__enter__()

        def author(**options: Any) -> LLMAuthor:
            made = LLMAuthor(
                ModelName("openai", "tiny", server.url), **{"backoff": QUICK, **options}
            )
            return made

        return server, author

    def __exit__(self, *error: Any) -> None:
        self._serving.__exit__(*error)
        self._allowed.__exit__(*error)


async def test_an_openai_compatible_server_gets_the_context_and_no_foreign_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    with loopback(lambda body, n: Reply(GOOD)) as (server, author):
        made = author()
        proposal = await made.propose(question())
        await made.close()
        await made.close()
        monkeypatch.setenv("KEVOLVE_API_KEY", "sk-of-this-one")
        await author().propose(question())
    assert proposal.source == KERNEL
    assert asked(server.requests[0]) == "the text of the ask"
    assert server.requests[0]["messages"][0]["role"] == "system"
    assert "tools" not in server.requests[0]
    assert server.keys == ["none", "sk-of-this-one"]


@pytest.mark.parametrize("status", [429, 500, 503, 529, 408])
async def test_passing_failures_are_waited_out(status: int) -> None:
    heard: list[str] = []
    with loopback(lambda body, n: Reply(GOOD) if n == 2 else Reply("busy", status)) as (
        server,
        author,
    ):
        proposal = await author(listen=heard.append).propose(question())
    assert proposal.source == KERNEL
    assert len(server.requests) == 3  # the client library has not tried again by itself
    assert len(heard) == 2
    assert "asking again" in heard[0]


async def test_the_provider_says_how_long_to_wait() -> None:
    replies = [Reply("slow down", 429, headers={"Retry-After": "1"}), Reply(GOOD)]
    heard: list[str] = []
    with loopback(lambda body, n: replies[n]) as (_, author):
        await author(backoff=replace(QUICK, stranger_patience_s=10), listen=heard.append).propose(
            question()
        )
    assert "asking again in 1 s" in heard[0]


async def test_failing_for_ever_ends_with_what_to_do() -> None:
    with (
        loopback(lambda body, n: Reply("broken", 500)) as (server, author),
        pytest.raises(AuthorUnavailable, match="HTTP 500") as caught,
    ):
        await author(backoff=replace(QUICK, stranger_patience_s=2.0)).propose(question())
    assert caught.value.retryable
    assert "resume" in caught.value.hint
    assert len(server.requests) > 3


async def test_no_server_at_all_ends_with_what_to_do() -> None:
    with loopback(lambda body, n: Reply("")) as (server, author):
        made = author()
    with models.override_allow_model_requests(True), pytest.raises(AuthorUnavailable) as caught:
        await made.propose(question())
    assert server.url in caught.value.hint


async def test_the_end_of_the_session_ends_the_waiting() -> None:
    with (
        loopback(lambda body, n: Reply("broken", 500)) as (_, author),
        pytest.raises(BudgetSpent, match="time ran out"),
    ):
        await author(backoff=replace(QUICK, stranger_patience_s=60)).propose(
            question(allowance=AskAllowance(seconds=0.05))
        )


async def test_a_hanging_server_is_cut_off_and_what_it_read_is_counted() -> None:
    with loopback(lambda body, n: Reply(GOOD, wait_s=20) if n == 0 else Reply(GOOD)) as (
        server,
        author,
    ):
        proposal = await author(limit_s=0.2).propose(question(text="x" * 3000))
    assert len(server.requests) == 2
    assert proposal.cost.tokens > 1200 + 1000


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (401, "refused the key: HTTP 401", "KEVOLVE_API_KEY"),
        (403, "refused the key", "KEVOLVE_API_KEY"),
        (404, "does not know", "/v1/models"),
        (402, "quota or credit", "Top it up"),
        (400, "rejected the request", "docs/authors.md"),
    ],
)
async def test_what_waiting_cannot_fix_ends_at_once(
    status: int, said: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_API_KEY", "sk-secret")
    with (
        loopback(lambda body, n: Reply("no: sk-secret", status)) as (server, author),
        pytest.raises(AuthorUnusable, match=said) as caught,
    ):
        await author().propose(question())
    assert len(server.requests) == 1
    assert hint in caught.value.hint
    assert "sk-secret" not in str(caught.value)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("status", [401, 500])
@pytest.mark.parametrize(
    ("name", "key", "where"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("google:gemini-2.5-pro", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
async def test_every_provider_fails_in_the_same_words(
    name: str, key: str, where: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through each client library, on loopback: one request for each try of ours, and the key never
    in the words."""
    monkeypatch.setenv(key, "sk-secret-key")
    with (
        serving(lambda body, n: Reply("no: sk-secret-key", status)) as server,
        models.override_allow_model_requests(True),
    ):
        monkeypatch.setenv(
            where, server.url if key.startswith("OPENAI") else server.url.removesuffix("/v1")
        )
        heard: list[str] = []
        author = LLMAuthor(ModelName.parse(name), backoff=QUICK, listen=heard.append)
        with pytest.raises(AuthorUnusable if status == 401 else AuthorUnavailable) as caught:
            await author.propose(question(allowance=AskAllowance(tokens=9000, usd=5.0)))
        await author.close()
    assert f"HTTP {status}: no: <{key}>" in caught.value.message
    assert len(server.requests) == len(heard) + 1


async def test_an_answer_that_was_cut_off_is_asked_for_again() -> None:
    replies = [Reply(GOOD[: len(GOOD) // 2], finish_reason="length"), Reply(GOOD)]
    with loopback(lambda body, n: replies[n]) as (server, author):
        assert (await author().propose(question())).source == KERNEL
    assert "cut off" in asked(server.requests[1])


async def test_cancelling_does_not_wait_for_the_answer() -> None:
    with loopback(lambda body, n: Reply(GOOD, wait_s=30)) as (_, author), anyio.fail_after(10):
        with anyio.move_on_after(0.3) as scope:
            await author().propose(question())
        assert scope.cancelled_caught


# names and keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("openai:", {}, "is not a model"),
        ("anthropic:claude", {"base_url": "http://x/v1"}, "URL can only be used with openai:MODEL"),
        ("openai:tiny", {"base_url": "localhost:8000"}, "is not the URL"),
        ("openai:tiny", {"price_in": 1.0}, "must be given together"),
        ("offline", {"base_url": "http://x/v1"}, "only apply to models"),
        ("shakespeare", {}, "there is no author"),
    ],
)
def test_wrong_names_and_options_are_told(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        choose_author(name, AuthorOptions(**options))
    assert caught.value.hint or caught.value.actions


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("openai:gpt-4o", "OPENAI_API_KEY"),
        ("anthropic:claude-x", "ANTHROPIC_API_KEY"),
        ("google:gemini-x", "GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_is_named(name: str, key: str) -> None:
    with pytest.raises(AuthorUnusable, match=key) as caught:
        choose_author(name)
    assert f"export {key}" in caught.value.hint


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "pydantic_ai":
            raise ModuleNotFoundError("No module named 'pydantic_ai'", name="pydantic_ai")
        return real(name, *arguments, **options)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    monkeypatch.setattr(builtins, "__import__", refusing)
    for name in [m for m in sys.modules if m.partition(".")[0] == "pydantic_ai"]:
        monkeypatch.delitem(sys.modules, name)
    for base_url in ("", "http://127.0.0.1:9/v1"):
        with pytest.raises(Unavailable, match="needs pydantic-ai") as caught:
            choose_author("openai:gpt-4o", AuthorOptions(base_url=base_url))
        assert "kevolve-mcp[llm]" in caught.value.hint


def test_all_forms_are_listed() -> None:
    assert {
        "offline",
        "openai:MODEL",
        "anthropic:MODEL",
        "google:MODEL",
        "cmd: COMMAND",
        "claude",
        "codex",
        "gemini",
    } <= set(author_names())


def test_the_instructions_show_an_answer_that_is_understood() -> None:
    from kevolve_mcp.synthesis.authors.answers import read_answer
    from kevolve_mcp.synthesis.authors.llm import INSTRUCTIONS

    shown = INSTRUCTIONS.replace("<the whole candidate file, from its imports to its end>", KERNEL)
    assert read_answer(shown, "cpp").words.predicted_speedup == 1.2
    assert json.loads(INSTRUCTIONS.split("```json\n")[1].split("\n```")[0])["hypothesis"]
