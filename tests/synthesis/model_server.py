"""A server on loopback that speaks OpenAI's chat completions, and answers as a test tells it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """status 200: `text` is the model's answer, usage its count (None: the server does not count).
    Else `text` is the error's message. wait_s: before the answer."""

    text: str
    status: int = 200
    usage: tuple[int, int] | None = (1000, 200)
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    finish_reason: str = "stop"


Answer = Callable[[dict[str, Any], int], Reply]


@dataclass
class ModelServer:
    """url: what --base-url takes. requests: the bodies in their order; keys: what was sent as the
    key with each."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(answer: Answer) -> Iterator[ModelServer]:
    """answer: from a request's body and its number, beginning with 0."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(server.requests)
                server.requests.append(body)
                server.keys.append(self.headers.get("Authorization", "").removeprefix("Bearer "))
            reply = answer(body, number)
            if reply.wait_s:
                server.gone.wait(reply.wait_s)
            sent = json.dumps(
                completion(body, reply)
                if reply.status == 200
                else {"error": {"message": reply.text}}
            ).encode()
            try:
                self.send_response(reply.status)
                for name, value in {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(sent)),
                    **reply.headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(sent)
            except OSError:
                pass  # the client has gone, as some tests want it

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = ModelServer(f"http://127.0.0.1:{http.server_address[1]}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.gone.set()
        http.shutdown()
        thread.join()
        http.server_close()


def completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    data: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
    }
    if reply.usage is not None:
        read, written = reply.usage
        data["usage"] = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }
    return data


def asked(body: dict[str, Any]) -> str:
    """What the model was asked: the last message."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def blocks(source: str, **words: object) -> str:
    """An answer as the author's instructions want it."""
    return f"```json\n{json.dumps(words)}\n```\n```python\n{source}\n```"
