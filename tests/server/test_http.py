"""The server over HTTP as clients use it: both protocol eras, several agents on one home, an end
that keeps what was begun."""

from __future__ import annotations

import builtins
import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client

from kevolve_mcp.errors import StoreError, Unavailable, UsageError
from kevolve_mcp.server.http import HttpOptions, read_token, serve_http
from kevolve_mcp.server.http.options import host_names, listen
from kevolve_mcp.server.http.token import find_token, same, token_file
from kevolve_mcp.server.serving import serve
from kevolve_mcp.settings import Settings

from .conftest import EVERY_ERA, TASK, data, kernel, open_session, refused, text
from .serving import PATIENCE_S, ROOT, TOKEN, Serving

ERAS = pytest.mark.parametrize("mode", EVERY_ERA)


@ERAS
@pytest.mark.anyio
async def test_the_journey(tmp_path: Path, mode: str) -> None:
    heard: list[float] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    with Serving(tmp_path / "home", tmp_path) as serving:
        async with serving.client(mode) as client:
            assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
            assert len((await client.list_tools()).tools) == 14
            session = await open_session(client, start_source=kernel(1.1))
            asked = data(await client.call_tool("session_next", {"session_id": session}))
            role = asked["asks"][0]["context"]["role"]
            if mode == "auto":  # its clients cannot be told apart: each may be one of several
                assert role == "start"
                submitted = {"session_id": session, "ask_id": "a1"}
                told = await client.call_tool("kernel_submit", submitted)
                assert text(told).startswith("n1 is correct")
            else:
                assert role == "improve"
            slow = {"session_id": session, "source": kernel(1.7, seconds=0.8)}
            assert (
                data(await client.call_tool("kernel_submit", slow, progress_callback=listen))[
                    "node_id"
                ]
                == "n2"
            )
            assert heard
            page = await client.read_resource("kevolve://knowledge/guidance/vectorization")
            assert "# Vectorization" in page.contents[0].text  # type: ignore[union-attr]
            source = await client.read_resource(f"kevolve://sessions/{session}/nodes/n2/source")
            assert "speedup=1.7" in source.contents[0].text  # type: ignore[union-attr]
            error = refused(
                await client.call_tool("session_next", {"session_id": session, "cuont": 1})
            )
            assert "did you mean 'count'?" in error["message"]
            ended = data(
                await client.call_tool(
                    "session_finish", {"session_id": session, "include_files": True}
                )
            )
            assert "kernel.py" in ended["result"]["contents"]


@pytest.mark.anyio
async def test_a_wrong_token_is_told_to_the_client(tmp_path: Path) -> None:
    with Serving(tmp_path / "home", tmp_path) as serving:
        for mode in EVERY_ERA:
            with pytest.raises(builtins.BaseExceptionGroup) as caught:
                async with serving.client(mode, token="another-token-entirely"):
                    raise AssertionError("connected")
            assert "the bearer token is wrong" in repr(caught.value)


@pytest.mark.anyio
async def test_two_agents_share_a_home_and_a_server(tmp_path: Path) -> None:
    with Serving(tmp_path / "home", tmp_path) as serving:
        async with serving.client("auto") as one, serving.client("legacy") as two:
            session = await open_session(one)
            assert await open_session(two) == session

            async def work(client: Client, numbers: range) -> None:
                for number in numbers:
                    asked = data(await client.call_tool("session_next", {"session_id": session}))
                    ask = asked["asks"][0]["context"]["id"]
                    taken.append(ask)
                    answer = {
                        "session_id": session,
                        "ask_id": ask,
                        "source": kernel(1 + number / 100),
                    }
                    assert (
                        data(await client.call_tool("kernel_submit", answer))["status"] == "correct"
                    )

            taken: list[str] = []
            async with anyio.create_task_group() as group:
                group.start_soon(work, one, range(1, 5))
                group.start_soon(work, two, range(11, 15))
            assert len(set(taken)) == 8
            async with serving.client("legacy") as three:  # of the same name and process as `two`
                calls = [
                    await client.call_tool("session_next", {"session_id": session})
                    for client in (two, three, two, three)
                ]
            open_asks = [data(call)["asks"][0]["context"]["id"] for call in calls]
            assert open_asks[0] != open_asks[1]
            assert open_asks[2:] == open_asks[:2]
            assert "class Model: pass" in text(calls[1])
            tree = data(await two.call_tool("tree_view", {"session_id": session}))
            assert len(tree["data"]["nodes"]) == 8


@pytest.mark.anyio
async def test_a_cancelled_wait_leaves_the_job(tmp_path: Path) -> None:
    with Serving(tmp_path / "home", tmp_path) as serving:
        async with serving.client() as client:
            session = await open_session(client)
            with anyio.move_on_after(0.5) as scope:
                await client.call_tool(
                    "kernel_submit", {"session_id": session, "source": kernel(seconds=1.0)}
                )
            assert scope.cancelled_caught
            assert (
                data(await client.call_tool("job_wait", {"session_id": session}))["state"] == "done"
            )


@pytest.mark.anyio
async def test_sigterm_ends_it_cleanly_and_jobs_are_kept(tmp_path: Path) -> None:
    with Serving(tmp_path / "home", tmp_path, limits={"grace_s": 1}) as serving:
        broken: list[BaseException] = []
        job = ""

        async def wait_for_ever(client: Client) -> None:
            await client.call_tool("job_wait", {"job_id": job, "wait_s": 45})

        try:
            async with serving.client() as client:
                session = await open_session(client)
                slow = {"session_id": session, "source": kernel(seconds=1.0), "wait_s": 0}
                job = str(data(await client.call_tool("kernel_submit", slow))["job_id"])
                async with anyio.create_task_group() as group:
                    group.start_soon(wait_for_ever, client)
                    await anyio.sleep(0.3)
                    code, said = await anyio.to_thread.run_sync(serving.stop)
                    group.cancel_scope.cancel()
        except (Exception, builtins.BaseExceptionGroup) as error:
            broken.append(error)  # the client's connection, which is its client's affair
        assert code == 0
        assert "Traceback" not in said
        serving.start()
        async with serving.client() as client:
            done = data(await client.call_tool("job_wait", {"job_id": job}))
            assert (done["state"], done["result"]["node"]["id"]) == ("done", "n1")
            assert await open_session(client) == session


def test_the_real_program_makes_a_token_once_and_keeps_it_private(tmp_path: Path) -> None:
    said = [start_and_stop(tmp_path) for _ in range(2)]
    token = read_token(tmp_path / "home")
    assert len(token) >= 40
    assert f"Token, shown this once: {token}" in said[0]
    assert token not in said[1]
    assert str(token_file(tmp_path / "home")) in said[1]
    assert stat.S_IMODE(token_file(tmp_path / "home").stat().st_mode) == 0o600
    assert f"below {tmp_path}" in said[1]


def start_and_stop(folder: Path) -> str:
    """`kevolve serve --http` started in a folder and ended by SIGTERM; what it said."""
    command = [
        sys.executable,
        "-P",
        "-c",
        "from kevolve_mcp.cli.main import main; main()",
        "serve",
        "--http",
        "--port",
        "0",
    ]
    environment = {**os.environ, "KEVOLVE_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    first = process.stderr.readline()
    assert "KEvolve serves MCP at http://127.0.0.1:" in first
    process.terminate()
    process.wait(PATIENCE_S)
    with process.stderr, process.stdout:
        stdout, stderr = process.stdout.read(), process.stderr.read()
    assert (process.returncode, stdout) == (0, ""), stderr
    assert "Traceback" not in stderr
    return first + stderr


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o755])
def test_a_token_that_others_could_read_is_not_used(tmp_path: Path, mode: int) -> None:
    find_token(None, tmp_path)
    token_file(tmp_path).chmod(mode)
    with pytest.raises(StoreError, match="readable by you alone"):
        find_token(None, tmp_path)


def test_a_token_file_that_is_none_is_not_used(tmp_path: Path) -> None:
    path = token_file(tmp_path)
    for content in ("", "\n", "short", "x" * 15, "with a space in the middle", "\xff" * 30):
        path.write_text(content)
        path.chmod(0o600)
        with pytest.raises(StoreError, match="holds no token"):
            find_token(None, tmp_path)
    path.unlink()
    other = tmp_path / "other"
    other.write_text("x" * 40)
    other.chmod(0o600)
    path.symlink_to(other)
    with pytest.raises(StoreError, match="cannot be read"):
        find_token(None, tmp_path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(StoreError):
        find_token(None, tmp_path)


@pytest.mark.parametrize(
    "token",
    [
        "",
        " ",
        "short",
        "x" * 15,
        "with a space in the middle",
        "ümlaut-ümlaut-ümlaut",
        "line\nline-line-line-line",
    ],
)
def test_a_weak_token_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(UsageError, match="at least 16 characters"):
        find_token(token, tmp_path)


def test_a_token_does_not_show(tmp_path: Path) -> None:
    made = find_token(None, tmp_path)
    assert made.value not in repr(made)
    assert find_token(None, tmp_path).value == made.value
    assert TOKEN not in repr(Settings(token=TOKEN))  # type: ignore[arg-type]
    assert same(TOKEN.encode(), TOKEN)
    assert not same(b"", TOKEN)
    assert not same(TOKEN.encode()[:-1], TOKEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.255.255.1"])
def test_other_addresses_want_a_flag_and_a_token_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("KEVOLVE_TOKEN", "")
    settings = Settings(home=tmp_path)
    find_token(None, tmp_path)  # one that lies there already does not count
    with pytest.raises(UsageError, match="reached from other machines"):
        serve(settings, HttpOptions(host, 0, token=TOKEN, roots=(tmp_path,)))
    with pytest.raises(UsageError, match="you must set the token yourself"):
        serve(settings, HttpOptions(host, 0, allow_remote=True, roots=(tmp_path,)))
    with pytest.raises(UsageError, match="at least 16"):
        serve_http(HttpOptions("127.0.0.1", 0, token="", roots=(tmp_path,)), settings)


def test_names_of_a_remote_server() -> None:
    options = HttpOptions(
        "0.0.0.0", 0, token=TOKEN, allow_remote=True, allow_hosts=("gpu-box", "fd00::1")
    )
    with listen(options) as bound:
        names = host_names(options, bound)
    assert {"gpu-box", "gpu-box:*", "[fd00::1]:*", "127.0.0.1:*"} <= set(names)
    assert not any(name.startswith("0.0.0.0") for name in names)


def test_the_token_leaves_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVOLVE_TOKEN", TOKEN)
    with pytest.raises(UsageError):
        serve(Settings(home=tmp_path), HttpOptions("0.0.0.0", 0, roots=(tmp_path,)))
    assert "KEVOLVE_TOKEN" not in os.environ


def test_what_cannot_be_listened_on_is_said(tmp_path: Path) -> None:
    with listen(HttpOptions(port=0)) as bound, pytest.raises(Unavailable, match="cannot listen"):
        listen(HttpOptions(port=bound.getsockname()[1]))
    with pytest.raises(UsageError, match="no port"):
        listen(HttpOptions(port=70000))
    with pytest.raises(UsageError, match="no address"):
        listen(HttpOptions(host="no such host"))
    with pytest.raises(UsageError, match="not a folder"):
        serve_http(HttpOptions(port=0, roots=(tmp_path / "nowhere",)), Settings(home=tmp_path))


def test_serve_over_stdio_takes_no_notice_of_http() -> None:
    script = (
        "import sys; import kevolve_mcp.cli.main, kevolve_mcp.server.build as b; b.build_server(); "
        "print('h11' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert answer.stdout == "False\n"
    command = [sys.executable, "-c", "from kevolve_mcp.cli.main import main; main()", "serve"]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.anyio
async def test_the_task_of_another_home_is_not_seen(tmp_path: Path) -> None:
    """Two servers, two homes, two tokens: neither opens the other."""
    with (
        Serving(tmp_path / "a", tmp_path) as one,
        Serving(tmp_path / "b", tmp_path, token=TOKEN[::-1]) as two,
    ):
        async with one.client() as client:
            await open_session(client, task_source=TASK)
        async with two.client() as client:
            assert text(await client.call_tool("tree_view", {})).startswith("0 sessions")
        with pytest.raises(builtins.BaseExceptionGroup):
            async with two.client(token=TOKEN):
                raise AssertionError("connected")
