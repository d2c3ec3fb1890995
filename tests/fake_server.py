"""An OpenAI-compatible server on loopback that answers from a list, and keeps what it was asked."""

import contextlib
import json
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Answer:
    """What the server sends for one request."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay_s: float = 0.0
    """Seconds before the first byte."""
    claimed: int | None = None
    """Length that the header claims; more than there is breaks the connection in the middle of the body."""


def completion(content: str | None, *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with one choice; `message` adds fields to its message."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def call(arguments: Any, *, name: str = "run_python", id: str = "c1") -> dict[str, Any]:
    """A tool call as it stands in a message."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunk(
    content: str | None = None, *, finish: str | None = None, usage: bool = False, **delta: Any
) -> dict[str, Any]:
    """A piece of a streamed completion."""
    if content is not None:
        delta["content"] = content
    piece = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}],
    }
    if usage:
        piece |= {
            "choices": [],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
    return piece


class FakeServer:
    """Answers each POST with the next of its answers, and 418 (which nobody retries) when none is left."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.models: list[str] = ["fake-model"]
        self.keep_alive = False
        """Whether a connection serves many requests; each holds a thread until its client ends."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def says(self, content: str | None, *, finish: str = "stop", **message: Any) -> Self:
        """Answer with a chat completion."""
        return self.sends(completion(content, finish=finish, **message))

    def sends(self, body: Any, status: int = 200, **headers: str) -> Self:
        """Answer with JSON; an underscore in a header's name stands for a dash."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(Answer(json.dumps(body).encode(), status, named))
        return self

    def refuses(self, status: int, *, code: str | None = None, param: str | None = None, message: str = "no",
                **headers: str) -> Self:  # fmt: skip
        """Answer with an error as OpenAI writes it."""
        error = {"message": message, "type": "error", "code": code, "param": param}
        return self.sends({"error": error}, status, **headers)

    def streams(self, pieces: Sequence[Mapping[str, Any]], *, broken: bool = False) -> Self:
        """Answer with server-sent events; `broken` ends the connection before the stream's end."""
        lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
        body = "".join(lines if broken else [*lines, "data: [DONE]\n\n"]).encode()
        claimed = len(body) + 100 if broken else None
        self.answers.append(Answer(body, content_type="text/event-stream", claimed=claimed))
        return self

    def writes(self, *replies: str) -> Self:
        """Answer each request with the next of these, streamed word by word."""
        for reply in replies:
            pieces = [chunk(word) for word in re.findall(r"\S+\s*|\s+", reply)]
            self.streams([*pieces, chunk(finish="stop"), chunk(usage=True)])
        return self

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            body = {"object": "list", "data": [{"id": name, "object": "model"} for name in server.models]}
            self._send(Answer(json.dumps(body).encode()))

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            server.times.append(time.monotonic())
            server.requests.append(json.loads(raw))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            self._send(server.answers.popleft() if server.answers else Answer(b"{}", 418))

        def _send(self, answer: Answer) -> None:
            time.sleep(answer.delay_s)
            with contextlib.suppress(ConnectionError):
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(answer.claimed or len(answer.body)))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)
            self.close_connection = not server.keep_alive

    return Handler


def serve() -> Iterator[FakeServer]:
    """The server as a generator, for a fixture."""
    with FakeServer() as server:
        yield server
