"""The server over HTTP attacked with bytes: who may talk to it, how much, how slowly, and what it
does with rubbish."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from .conftest import TASK, data
from .serving import PATIENCE_S, TOKEN, Serving, hung_up, receive

MEGABYTE = 1 << 20
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
MODERN = {"MCP-Protocol-Version": "2026-07-28", "MCP-Method": "ping"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "root").mkdir()
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Serving]:
    """One for all attacks: each must leave it able to answer the next."""
    with Serving(folder / "home", folder / "root", limits={"body_bytes": MEGABYTE}) as serving:
        yield serving
        assert serving.process.poll() is None


@pytest.fixture(scope="module")
def strict(folder: Path) -> Iterator[Serving]:
    """Very impatient, for few."""
    limits = {"header_s": 1.5, "body_s": 1.0, "connections": 6}
    with Serving(folder / "home2", folder / "root", limits=limits) as serving:
        yield serving


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer  {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        "Bearer " + "x" * 10_000,
        "Bearer t\xf6ken",
        f"Basic {TOKEN}",
        f"Token {TOKEN}",
        TOKEN,
        f"{TOKEN} Bearer",
        "Bearer null",
        "Bearer undefined",
    ],
    ids=lambda a: repr(a)[:30],
)
def test_without_the_token_there_is_no_answer(server: Serving, authorization: str | None) -> None:
    for target in ("/mcp", "/", "/docs", "/.well-known/oauth-protected-resource", "/mcp/../mcp"):
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = server.request(headers, PING, target=target, token=None)
        assert answer is not None
        assert answer.status == 401, target
        assert "www-authenticate: Bearer" in answer.headers
        assert "token" in answer.body
        assert TOKEN not in answer.headers + answer.body


@pytest.mark.parametrize(
    "method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PROPFIND"]
)
def test_no_method_gets_around_the_token(server: Serving, method: str) -> None:
    answer = server.request({"Connection": "close"}, method=method, token=None)
    assert answer is None or answer.status in (400, 401)


def test_a_token_elsewhere_than_in_the_header_does_not_count(server: Serving) -> None:
    for target in (
        f"/mcp?token={TOKEN}",
        f"/mcp?access_token={TOKEN}",
        f"/mcp/{TOKEN}",
        f"/mcp#{TOKEN}",
    ):
        answer = server.request(body=PING, target=target, token=None)
        assert answer is not None
        assert answer.status in (400, 401)
    for headers in (
        {"Cookie": f"token={TOKEN}"},
        {"X-Api-Key": TOKEN},
        {"Proxy-Authorization": f"Bearer {TOKEN}"},
    ):
        answer = server.request(headers, PING, token=None)
        assert answer is not None
        assert answer.status == 401


def test_two_tokens_are_none(server: Serving) -> None:
    answer = server.request({"Authorization": "Bearer guess"}, PING)
    assert answer is not None
    assert answer.status == 401


def test_the_scheme_may_be_written_as_one_likes(server: Serving) -> None:
    answer = server.request(
        {"Authorization": f"bEARER {TOKEN}"}, method="GET", target="/elsewhere", token=None
    )
    assert answer is not None
    assert answer.status == 404


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1.evil.example:PORT",
        "evil.example#127.0.0.1:PORT",
        "0.0.0.0:PORT",
        "10.0.0.1",
        "[::2]:PORT",
    ],
)
def test_a_foreign_host_is_refused_even_with_the_token(server: Serving, host: str) -> None:
    answer = server.request(body=PING, host=host.replace("PORT", str(server.port)))
    assert answer is not None
    assert answer.status == 421
    assert "--allow-host" in answer.body


def test_no_host_and_two_hosts_are_refused(server: Serving) -> None:
    head = f"POST /mcp HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n"
    answer = server.send(f"{head}\r\n".encode())
    assert answer is not None
    assert answer.status == 421
    answer = server.request({"Host": "evil.example"}, PING)
    assert answer is not None
    assert answer.status == 400


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:PORT",
        "http://localhost:3000",
        "null",
        "file://",
        "http://127.0.0.1.evil.example",
    ],
)
def test_a_page_in_a_browser_is_refused_even_with_the_token(server: Serving, origin: str) -> None:
    for method in ("POST", "GET", "OPTIONS", "DELETE"):
        answer = server.request(
            {"Origin": origin.replace("PORT", str(server.port))}, PING, method=method
        )
        assert answer is not None
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers.lower()


def test_an_upgrade_to_a_websocket_is_not_made(server: Serving) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for token in ("", None):
        answer = server.request(headers, b"", method="GET", token=token)
        assert answer is not None
        assert answer.status != 101


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
def test_oversized_bodies_are_refused(server: Serving, modern: bool) -> None:
    headers = MODERN if modern else {}
    big = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * MEGABYTE + b'"}}'
    declared = server.request(headers, big)
    assert declared is not None
    assert declared.status == 413
    lines = [
        (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nAccept: */*"
        )
    ]
    lines += [
        "Content-Type: application/json\r\nTransfer-Encoding: chunked",
        *(f"{k}: {v}" for k, v in headers.items()),
    ]
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with server.socket() as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                connection.sendall(chunk)
        undeclared = receive(connection)
    assert undeclared is not None
    assert undeclared.status == 413


def test_a_body_is_not_read_before_the_token_was_seen(server: Serving) -> None:
    with server.socket() as connection:
        connection.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
            b"Content-Length: 1000000\r\n\r\n"
        )
        answer = receive(connection)
    assert answer is not None
    assert answer.status == 401


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"true",
    b"[]",
    b"[[]]",
    b"{}",
    b"\x00\x01\x02",
    b"\xff\xfe\x00{",
    b'"' + b"a" * 1000,
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b"1" * 500_000,
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":5}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":null}}',
    b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
]


@pytest.mark.parametrize(
    "version", [None, "2025-11-25", "2026-07-28", "1999-01-01", "\xff"], ids=str
)
def test_garbage_is_answered_as_such(server: Serving, version: str | None) -> None:
    headers = {} if version is None else {"MCP-Protocol-Version": version, "MCP-Method": "ping"}
    for body in GARBAGE:
        answer = server.request(headers, body)
        assert answer is not None
        assert 400 <= answer.status < 500, (body[:60], answer)
        assert "Traceback" not in answer.body
    assert server.process.poll() is None


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"GET /mcp HTTP/9.9\r\n\r\n",
        b"GET  /mcp\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        (
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n"
            b"\r\nhello"
        ),
        (
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Length: 5\r\n\r\n0\r\n\r\n"
        ),
        b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_no_http_is_hung_up_on(server: Serving, raw: bytes) -> None:
    answer = server.send(raw)
    assert answer is None or answer.status in (400, 401, 421)


@pytest.mark.parametrize(
    "target",
    [
        "/../../etc/passwd",
        "/mcp/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/mcp%00",
        "/mcp/..%2f..%2fetc%2fpasswd",
    ],
)
def test_there_is_nothing_beside_the_endpoint(server: Serving, target: str) -> None:
    answer = server.request(method="GET", target=target)
    assert answer is not None
    assert answer.status == 404
    assert "root:" not in answer.body


def test_headers_that_do_not_come_end_the_connection(strict: Serving) -> None:
    with strict.socket() as silent, strict.socket() as slow, hung_up(silent), hung_up(slow):
        drip(slow, b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 100)


def test_a_body_that_does_not_come_ends_the_request(strict: Serving) -> None:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\n"
    )
    for declared in ("Content-Length: 1000", "Transfer-Encoding: chunked"):
        with strict.socket() as connection:
            connection.sendall(
                f"{head}Accept: application/json, text/event-stream\r\n{declared}\r\n\r\n".encode()
            )
            drip(connection, b"1\r\n{\r\n" * 100)
            answer = receive(connection)
            assert answer is None or answer.status == 408


def test_a_refused_request_may_not_go_on_for_ever(strict: Serving) -> None:
    with strict.socket() as connection, hung_up(connection):
        connection.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
        )
        drip(connection, b"x" * 1000)


def test_a_second_request_on_a_connection_may_not_be_slow_either(strict: Serving) -> None:
    with strict.socket() as connection, hung_up(connection):
        connection.sendall(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        first = receive(connection)
        assert first is not None
        assert first.status == 401
        drip(connection, b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 100)


def drip(connection: object, data: bytes) -> None:
    """Byte after byte until the other side has had enough."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        for i in range(len(data)):
            connection.sendall(data[i : i + 1])  # type: ignore[attr-defined]
            time.sleep(0.02)
            assert time.monotonic() < deadline, "the server reads for ever"
    except ConnectionError:
        pass


def test_connections_above_the_limit_are_turned_away_and_others_go_on(strict: Serving) -> None:
    with contextlib.ExitStack() as stack:
        first = [stack.enter_context(strict.socket()) for _ in range(6)]
        for connection in first:
            connection.sendall(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert [a.status for c in first if (a := receive(c)) is not None] == [401] * 6
        too_many = stack.enter_context(strict.socket())
        answer = receive(too_many)
        assert answer is not None
        assert answer.status == 503
    deadline = time.monotonic() + PATIENCE_S
    while (last := strict.request(method="GET", target="/x")) is None or last.status != 404:
        assert time.monotonic() < deadline, "the places of those that went were not given back"
        time.sleep(0.05)


@pytest.mark.anyio
async def test_many_clients_at_once(server: Serving) -> None:
    seen: list[str] = []

    async def one(number: int) -> None:
        async with server.client("auto" if number % 2 else "legacy") as client:
            answer = await client.call_tool("session_open", {"task_source": TASK})
            seen.append(data(answer)["session_id"])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(24):
                group.start_soon(one, number)
    assert len(seen) == 24
    assert len(set(seen)) == 1
