"""The endpoint's server speaks HTTP/1.1 on a loopback port, and keeps an append-only ledger of its requests.

It runs on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from simulator.endpoint.wire.steps import Step
from simulator.endpoint.wire.streams import stream_step, wants_stream

HEAD_BYTES_MAX = 65_536
BODY_BYTES_MAX = 20_000_000
CLOSE_S = 10.0
CHUNKED = "Transfer-Encoding: chunked"
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - What an operator may ask for; loopback is the default.
RECEIVED_MAX = 100_000
"""Requests that one endpoint keeps; it hangs up on more."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request as the endpoint got it; a line of the ledger."""

    number: int
    """1 for the first request of all."""
    agent_number: int
    """1 for the first request of this agent."""
    method: str
    path: str
    agent: str
    key: str
    """Return the key in ``Authorization: Bearer``, ``x-api-key`` or ``x-goog-api-key``.

    Without a key the text is empty.
    """
    idempotency_key: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """The parsed JSON; None when there was none."""
    raw: bytes = field(default=b"", repr=False)
    """The bytes of the body; no line of the ledger has them."""


Script = Sequence[Step] | Mapping[str, Sequence[Step]] | Callable[[Received], Step]
"""Steps in order, of which the last repeats.

Or steps by agent name, with ``*`` for the others. Or a function of the request.
"""


class ScriptedEndpoint:
    """A context manager that serves. ``url`` is the base URL to configure, ``received`` grows with each request.

    With ``keep`` False it forgets each request once it is answered, so that any number may come.
    """

    def __init__(
        self, script: Script, *, port: int = 0, host: str = LOOPBACK, ledger: Path | None = None, keep: bool = True
    ) -> None:
        self.received: list[Received] = []
        self.left: list[Received] = []
        """Requests whose client closed the connection before its answer was whole."""
        self._keep, self._number = keep, 0
        self._script, self._host, self._port, self._ledger = script, host, port, ledger
        self._counts: Counter[str] = Counter()
        self._arrived = threading.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listening: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, name="scripted-endpoint", daemon=True)

    @property
    def url(self) -> str:
        """Return the base URL for an OpenAI-compatible client."""
        return f"http://{self.authority}/v1"

    @property
    def authority(self) -> str:
        """Return ``host:port``, as FABRIC_ALLOWED_HOSTS has it. For all addresses it is the one of this machine."""
        host = LOOPBACK if self._host in EVERYWHERE else self._host
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = self._listening.result(CLOSE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive() and kind is None:
            raise RuntimeError(f"the endpoint did not end within {CLOSE_S:g} s")

    def wait(self, count: int, timeout_s: float = 10.0) -> list[Received]:
        """Waits until that many requests have come and returns them all. TimeoutError when they do not."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.received) >= count, timeout_s):
                raise TimeoutError(f"{len(self.received)} of {count} requests came within {timeout_s} s")
            return list(self.received)

    def wait_left(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until the clients of that many requests have closed their connections in mid-answer.

        Raises TimeoutError if they do not.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.left) >= count, timeout_s):
                raise TimeoutError(f"{len(self.left)} of {count} clients left within {timeout_s} s")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._serve())
            except OSError as error:
                self._listening.set_exception(error)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, self._host, self._port, limit=HEAD_BYTES_MAX)
        self._listening.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                received = self._record(*request)
                step = self._step(received)
                if wants_stream(received.path, received.body):
                    step = stream_step(step, received.body)
                try:
                    if not await _send(step, reader, writer):
                        break
                except ConnectionError:
                    self._note_left(received)
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # The client went away, or does not speak HTTP.
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise
        finally:
            self._tasks.discard(task)
            writer.close()

    def _note_left(self, received: Received) -> None:
        with self._arrived:
            if self._keep:
                self.left.append(received)
            self._arrived.notify_all()

    def _record(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Received:
        agent = headers.get("x-fabric-agent", "")
        try:
            parsed = json.loads(body) if body else None
        except ValueError:
            parsed = None
        with self._arrived:
            if len(self.received) == RECEIVED_MAX:
                raise ValueError(f"more than {RECEIVED_MAX} requests")
            self._counts[agent] += 1
            self._number += 1
            received = Received(
                self._number,
                self._counts[agent],
                method,
                path,
                agent,
                _key(headers),
                headers.get("idempotency-key", ""),
                headers,
                parsed,
                body,
            )
            if self._ledger is not None:
                with self._ledger.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(build_line(received)) + "\n")
            if self._keep:
                self.received.append(received)
            self._arrived.notify_all()
        return received

    def _step(self, received: Received) -> Step:
        script = self._script
        if callable(script):
            return script(received)
        if isinstance(script, Mapping):
            named = received.agent in script
            others = sum(count for agent, count in self._counts.items() if agent not in script)
            steps, number = script[received.agent if named else "*"], received.agent_number if named else others
        else:
            steps, number = script, received.number
        return steps[min(number, len(steps)) - 1]


def build_line(received: Received) -> dict[str, Any]:
    """Return a request as the ledger has it."""
    return {name: value for name, value in asdict(received).items() if name != "raw"}


def _key(headers: Mapping[str, str]) -> str:
    named = (headers.get(name, "") for name in ("x-api-key", "x-goog-api-key"))
    return headers.get("authorization", "").removeprefix("Bearer ") or next(filter(None, named), "")


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    """Return one request: method, path, headers, body. None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= BODY_BYTES_MAX:
        raise ValueError(f"a body of {length} bytes")
    return method, path, headers, await reader.readexactly(length)


async def _send(step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Carry out the step.

    Return False if the connection is to be closed. Raises ConnectionError if the client closes it before.
    """
    if step.delay_s:
        await asyncio.sleep(step.delay_s)
    if step.mode == "hang_up":
        return False
    if step.mode == "hang":
        await _until_it_leaves(reader)
    head = _head(step)
    if step.mode == "trickle":
        await _trickle(step, head, writer)
    if step.pieces is not None:
        await _send_pieces(step.pieces, step.mode, head, writer)
    else:
        body = step.body[: len(step.body) // 2] if step.mode in ("drop", "stall") else step.body
        writer.write(_join_lines([*head, f"Content-Length: {len(step.body)}"]) + body)
        await writer.drain()
    if step.mode == "stall":
        await _until_it_leaves(reader)
    return step.mode == "send"


async def _until_it_leaves(reader: asyncio.StreamReader) -> NoReturn:
    await reader.read()
    raise ConnectionResetError("the client closed the connection")


def _head(step: Step) -> list[str]:
    reason = HTTPStatus(step.status).phrase if step.status in set(HTTPStatus) else "Scripted"
    lines = [f"HTTP/1.1 {step.status} {reason}", f"Content-Type: {step.content_type}"]
    return lines + [f"{name}: {value}" for name, value in step.headers.items()]


def _join_lines(lines: Sequence[str]) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _trickle(step: Step, head: Sequence[str], writer: asyncio.StreamWriter) -> None:
    """Send a piece every so often, until the client goes away: that raises."""
    writer.write(_join_lines([*head, CHUNKED]))
    piece = step.pieces[0] if step.pieces else b" "
    while True:
        writer.write(_chunk(piece))
        await writer.drain()
        await asyncio.sleep(step.every_s)


async def _send_pieces(pieces: Sequence[bytes], mode: str, head: Sequence[str], writer: asyncio.StreamWriter) -> None:
    """Send a stream, or its first half. The end of the body comes with the whole alone."""
    writer.write(_join_lines([*head, CHUNKED]))
    for piece in pieces if mode in ("send", "broken") else pieces[: len(pieces) // 2]:
        writer.write(_chunk(piece))
        await writer.drain()
    if mode == "send":
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
