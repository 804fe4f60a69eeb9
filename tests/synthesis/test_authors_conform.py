"""Every author of ours fulfils the contract that third parties inherit."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kevolve_mcp.synthesis.authors import (
    AskContext,
    Author,
    CommandAuthor,
    LLMAuthor,
    ModelName,
    OfflineAuthor,
)
from kevolve_mcp.synthesis.authors.testing import PARENT, AuthorConformance, question

from .model_server import blocks

ANSWER = PARENT.replace('"UNROLL": 1,', '"UNROLL": 4,')


class TestOffline(AuthorConformance):
    def author(self) -> Author:
        return OfflineAuthor()

    def unable(self) -> tuple[Author, AskContext]:
        return OfflineAuthor(skills=()), question(role="draft", parents=(), best=None)


class TestCommand(AuthorConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def _author(self, script: str) -> Author:
        path = self.folder / "agent.py"
        path.write_text(script)
        return CommandAuthor(f"{sys.executable} {path}", transcripts=self.folder / "kept")

    def author(self) -> Author:
        words = '{"hypothesis": "unroll", "predicted_speedup": 1.1}'
        return self._author(
            f"open('candidate.py', 'w').write({ANSWER!r})\n"
            f"open('answer.json', 'w').write({words!r})\n"
        )

    def unable(self) -> tuple[Author, AskContext]:
        return self._author("raise SystemExit('no')"), question()


@pytest.mark.skipif(find_spec("pydantic_ai") is None, reason="the extra [llm] is not installed")
class TestModel(AuthorConformance):
    def _author(self, answer: str) -> Author:
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return ModelResponse(parts=[TextPart(answer)])

        model: Any = FunctionModel(reply)
        return LLMAuthor(ModelName("openai", "gpt-test"), model=model)

    def author(self) -> Author:
        return self._author(
            blocks(ANSWER, hypothesis="unroll", predicted_speedup=1.1, rationale="fewer branches")
        )

    def unable(self) -> tuple[Author, AskContext]:
        return self._author("I would rather not."), question()
