"""Settings, read once from the environment (prefix KEVOLVE_)."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """home: database, artifacts and exports. cache: the private harness copies, builds and measured ceilings.
    database: an SQLAlchemy URL; empty means SQLite inside the home. python: the interpreter that evaluates.
    server: the URL of a running server that the command line uses instead of its own. token: the bearer token, of a server
    over HTTP and of its clients."""

    model_config = SettingsConfigDict(env_prefix="KEVOLVE_", extra="ignore")

    home: Path = Field(default_factory=lambda: platformdirs.user_data_path("kevolve"))
    cache: Path = Field(default_factory=lambda: platformdirs.user_cache_path("kevolve"))
    database: str = ""
    python: str = ""
    max_wait_s: float = 45.0
    server: str = ""
    token: SecretStr = SecretStr("")
