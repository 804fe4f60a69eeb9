"""The bearer token: chosen by the user, or made once and kept in the home for clients on this
machine."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from kevolve_mcp.errors import StoreError, UsageError

FILE = "http-token"
MIN_CHARACTERS = 16
# what a bearer token may consist of (RFC 6750, section 2.1)
FORM = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
MAKE_ONE = "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


@dataclass(frozen=True)
class Token:
    """A bearer token. value: never to be logged. origin: given by the user, stored by an earlier
    start, or made just now."""

    value: str
    origin: str

    def __repr__(self) -> str:
        return f"Token(origin={self.origin!r})"


def token_file(home: Path) -> Path:
    return home / FILE


def find_token(token: str | None, home: Path) -> Token:
    """Return the token of a server: `token`, else the stored one, else a new one, which is stored.
    Raises UsageError, StoreError."""
    if token is not None:
        return Token(checked(token), "given")
    stored = read_token(home)
    return Token(stored, "stored") if stored else Token(_made(home), "made")


def checked(token: str) -> str:
    """Return the token. Raises UsageError for one that could be guessed or does not fit a
    header."""
    if len(token) < MIN_CHARACTERS or not FORM.fullmatch(token):
        raise UsageError(
            (
                f"a token has at least {MIN_CHARACTERS} characters: letters, digits and -._~+/; "
                "this one "
            )
            + (
                "empty"
                if not token
                else "is too short"
                if len(token) < MIN_CHARACTERS
                else "has other characters"
            ),
            MAKE_ONE,
        )
    return token


def read_token(home: Path) -> str:
    """Return the stored token, "" where there is none. Raises StoreError where others could have
    read or written it."""
    path = token_file(home)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}", "Remove it; the server makes a new one."
        ) from None
    with os.fdopen(file, encoding="ascii", errors="replace") as stream:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode) or state.st_mode & 0o077 or state.st_uid != os.geteuid():
            raise StoreError(
                f"{path} must belong to you and be readable by you alone (its mode is "
                f"{stat.S_IMODE(state.st_mode):04o})",
                "Others may know the token: remove the file; the server makes a new one.",
            )
        value = stream.read(4096).strip()
    if not FORM.fullmatch(value) or len(value) < MIN_CHARACTERS:
        raise StoreError(f"{path} holds no token", "Remove it; the server makes a new one.")
    return value


def same(offered: bytes, token: str) -> bool:
    """Return whether both are equal, in a time that depends on neither. Digests are compared, since
    the time would otherwise reveal the length."""
    return hmac.compare_digest(
        hashlib.sha256(offered).digest(), hashlib.sha256(token.encode()).digest()
    )


def _made(home: Path) -> str:
    """A new token in a file that is complete and private from the moment it appears. Two servers
    that start at once agree on one token."""
    path, value = token_file(home), secrets.token_urlsafe(32)
    draft = path.with_name(f".{FILE}.{secrets.token_hex(4)}")
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            with os.fdopen(file, "w", encoding="ascii") as stream:
                stream.write(value + "\n")
            os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        return read_token(home)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}",
            "Set KEVOLVE_HOME to a folder on a local disk.",
        ) from None
    return value
