"""Settings, read once from the environment (prefix KEVOLVE_; an empty variable counts as unset).
The evaluator's own settings are in `harness/settings.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, Field, SecretStr, ValidationError

from .errors import UsageError

PREFIX = "KEVOLVE_"
# The API key of the model server that --base-url names. It is not a setting: it is read where it is
# used, and is part of no object that could be shown.
API_KEY = f"{PREFIX}API_KEY"


class Settings(BaseModel):
    """home: database, artifacts and exports. cache: the private harness copies, builds and measured
    ceilings. database: an SQLAlchemy URL; empty means SQLite inside the home. max_wait_s: the
    longest time one call waits for a job. python: the interpreter that evaluates. server: the URL
    of a running server that the command line uses instead of its own. token: the bearer token, of a
    server over HTTP and of its clients. timing_effort: a half measures half as many pairs of
    bursts; the evaluator reads it itself. skills: "auto" accepts a proposed skill once it was
    measured on two tasks or devices, "review" leaves that to a person. vectors: the model by which
    passages are found by meaning as well: a folder, a known package, or a name on the hub; empty is
    off. vectors_server: the URL of a Chroma server that keeps them for a team; empty keeps them
    for this machine."""

    home: Path = Field(default_factory=lambda: platformdirs.user_data_path("kevolve"))
    cache: Path = Field(default_factory=lambda: platformdirs.user_cache_path("kevolve"))
    database: str = ""
    python: str = ""
    max_wait_s: float = Field(45.0, ge=0, allow_inf_nan=False)
    server: str = ""
    timing_effort: float = Field(1.0, ge=0.05, le=20)
    skills: Literal["auto", "review"] = "auto"
    vectors: str = ""
    vectors_server: str = ""
    token: SecretStr = SecretStr("")

    def __init__(self, **given: Any) -> None:
        """Read the settings. given: fields that the caller chose; the others come from the
        environment. Raises UsageError naming the variable."""
        named = {name: os.environ.get(variable(name)) for name in type(self).model_fields}
        read = {name: text for name, text in named.items() if text}
        try:
            super().__init__(**read | given)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            name = "_".join(map(str, problem["loc"]))
            raise UsageError(
                f"{variable(name)} is {problem['input']!r:.80}: {problem['msg'].lower()}",
                "Fix the environment variable, or unset it for the default.",
            ) from None


def variable(name: str) -> str:
    """Return the environment variable of a setting, by its field's name."""
    return f"{PREFIX}{name.upper()}"
