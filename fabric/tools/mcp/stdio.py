"""Runs an MCP server that is a command (MCP "stdio" transport). Its messages are lines of bounded size.

The SDK's own transport keeps a line whole however long it grows, so this one replaces it, under the SDK's session.
The process leads a group of its own, which is killed with it. When this process is killed its standard input closes,
which ends every server that keeps to the protocol. Its standard error is read and dropped, except for its end, which
goes to the log when it dies.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)

from fabric.core.spec.mcp import McpServer
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.tools.functions.permits import Permits
from fabric.tools.mcp.failures import LARGER, MESSAGE_BYTES_MAX, TOO_LARGE, NotStarted
from fabric.tools.mcp.messages import answer_to, drop_escapes, excerpt, is_answer, objects_in, same_id
from fabric.tools.mcp.process_groups import kill_group

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

log = logging.getLogger(__name__)
CHUNK = 65_536
END_BYTES = 1_000
"""Bytes kept of both ends of a line that is too long, to find the request that it answers."""
SAID_LINES, SAID_CHARS = 5, 300
GRACE_S = 1.0
"""Seconds that a process has to end after its standard input closed, and again after SIGTERM."""
OUT_MAX = 1_000
"""Largest number of messages that wait for a server that reads none."""
_first_id = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,')
_last_id = re.compile(rb'[,}\]]\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_speaks = re.compile(rb'^\s*\{.{0,200}"jsonrpc"', re.DOTALL)
_message = re.compile(rb'\{\s*"(?:jsonrpc|id|result|error)"')
_no_word = re.compile(r"^(?:Node\.js v[\d.]+|npm notice\b.*)?$")
"""Last lines of a program that do not explain its end."""

Read = SessionMessage | Exception


class StdioServer:
    """A running server. ``ended`` is set when its output ends; ``why`` then returns the known cause."""

    def __init__(self, server: McpServer, process: asyncio.subprocess.Process) -> None:
        self._name, self._process = server.name, process
        self.ended = asyncio.Event()
        self._fault = ""
        self._noise, self._noise_last, self._stray = 0, "", ""
        self._said: deque[str] = deque(maxlen=SAID_LINES)
        self._all_said = asyncio.Event()
        self._out: dict[RequestId, str] = {}
        """Methods of the pending requests."""

    @property
    def process_id(self) -> int | None:
        """Return the id of the process, which leads its group; None once it has ended."""
        return self._process.pid if self._process.returncode is None else None

    @property
    def gone(self) -> bool:
        """Return True if it answers nothing any more, although the end of its output may still be on its way."""
        if self.ended.is_set() or self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return False
        try:
            # The system is asked, since the loop may not have heard of the end yet.
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    @property
    def why(self) -> str:
        """Return the cause of its end, as a part of a sentence."""
        return (self._fault or self._end) + self.last_words

    @property
    def _end(self) -> str:
        code = self._process.returncode
        if code is None:
            return "it ended"
        return f"it ended with exit code {code}" if code >= 0 else f"it was killed by signal {-code}"

    @property
    def last_words(self) -> str:
        """Return the last line of its standard error, for a sentence; empty: there is none."""
        last = next((one for one in reversed(self._said) if not _no_word.match(one)), "")
        return f"; on standard error it last said: {last!r}" if last else ""

    @property
    def noise(self) -> str:
        """Return the stray lines between its messages, for a sentence; empty: there were none."""
        if not self._noise:
            return self._stray
        lines = "1 line" if self._noise == 1 else f"{self._noise} lines"
        return f"{self._stray}; {lines} of its output were no message, the last: {self._noise_last!r}"

    async def read(self, to: MemoryObjectSendStream[Read]) -> None:
        """Pass on its messages until it ends, or sends a line that may be an answer but cannot be read."""
        assert self._process.stdout is not None
        async with to:  # Closed at the very end: waiting calls fail then, with all that is known.
            try:
                await self._read_lines(self._process.stdout, to)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                pass  # The session is gone, or the pipe.
            except _UnreadableLine as error:
                self._fault = str(error)
            finally:
                await self._learn_code()
                if self._process.returncode is not None:
                    # Its last words are read, unless a process that it started goes on holding the pipe.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._all_said.wait(), GRACE_S)
                self.ended.set()

    async def _read_lines(self, output: asyncio.StreamReader, to: MemoryObjectSendStream[Read]) -> None:
        line = _OutputLine()
        while chunk := await output.read(CHUNK):
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                line.add(part)
                await self._take(line, to)
                line = _OutputLine()
            line.add(rest)

    async def _take(self, line: _OutputLine, to: MemoryObjectSendStream[Read]) -> None:
        if line.cut:
            answered = line.answers()
            if answered is None:
                raise _UnreadableLine(
                    f"it sent a message of more than {MESSAGE_BYTES_MAX:,} bytes that answers nothing"
                )
            self._out.pop(answered, None)
            error = JSONRPCError(jsonrpc="2.0", id=answered, error=ErrorData(code=TOO_LARGE, message=LARGER))
            await to.send(SessionMessage(error))
            return
        raw = drop_escapes(bytes(line.head))
        if not raw.strip():
            return
        listed = objects_in(raw)
        if listed is None:
            listed = self._behind_words(raw)
        if listed is None and _speaks.match(raw):
            raise _UnreadableLine(f"it sent a message that is no JSON-RPC 2.0: {excerpt(raw)!r}")
        for one in listed or ({},):
            message = self._read(one, raw)
            if message is None:
                self._noise, self._noise_last = self._noise + 1, excerpt(raw, 100)
            elif message is not _STRAY:
                await to.send(SessionMessage(message))

    def _behind_words(self, raw: bytes) -> list[dict[str, JSON]] | None:
        """Return an answer that shares a line with earlier output without an end of line."""
        found = _message.search(raw)
        listed = objects_in(raw[found.start() :]) if found is not None else None
        known = listed is not None and all(
            is_answer(one) and self._find_request(one.get("id")) is not None for one in listed
        )
        return listed if known else None

    def _find_request(self, given: JSON) -> RequestId | None:
        """Return the id of a pending request, as it went out."""
        return next((one for one in self._out if same_id(given, one)), None)

    def _read(self, one: dict[str, JSON], raw: bytes) -> JSONRPCMessage | None:
        """Return a message as the SDK takes it; None: it is none; _STRAY: it answers no pending request. Raises
        _Nonsense.
        """
        answers = is_answer(one)
        request_id = self._find_request(one.get("id")) if answers else None
        if answers and request_id is None:
            if "jsonrpc" not in one:
                return None
            said = one.get("id") if one.get("error") is None or one.get("id") is not None else one["error"]
            self._stray = f"; it answered {excerpt(said, 100)}, which is no request that is out"
            return _STRAY
        fit = one if request_id is None else answer_to(one, request_id, self._out.pop(request_id))
        try:
            return jsonrpc_message_adapter.validate_python(fit, by_name=False)
        except ValueError:
            said = f"it sent a message that is no JSON-RPC 2.0: {excerpt(raw)!r}"
            if request_id is not None:
                error = ErrorData(code=PARSE_ERROR, message=said)
                return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
            if "jsonrpc" not in one or "method" in one:
                return None
            raise _UnreadableLine(said) from None

    async def write(self, what: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send messages until there are no more, or the reader is gone."""
        assert self._process.stdin is not None
        try:
            async for one in what:
                self._note(one.message)
                body = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(body.encode() + b"\n")
                await self._process.stdin.drain()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # Its output shows this too, and ends the session.

    def _note(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest():
                self._out[message.id] = message.method
            case JSONRPCNotification(method="notifications/cancelled", params=dict() as about):
                self._out.pop(about.get("requestId", ""), None)

    async def listen(self) -> None:
        """Read its standard error, so that it never waits for a reader."""
        assert self._process.stderr is not None
        rest = b""
        try:
            while chunk := await self._process.stderr.read(CHUNK):
                *lines, rest = (rest[-CHUNK:] + chunk).split(b"\n")
                self._hear(lines[-SAID_LINES:])
            self._hear([rest])
        except OSError:
            pass
        finally:
            self._all_said.set()

    def _hear(self, lines: list[bytes]) -> None:
        said = (drop_escapes(one[: 4 * SAID_CHARS]).decode("utf-8", "replace").strip()[:SAID_CHARS] for one in lines)
        self._said.extend(one for one in said if one)

    async def _learn_code(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while self._process.returncode is None:  # noqa: ASYNC110 - Nothing tells it but the number itself.
                    # Not wait(): that one also waits for the end of the pipes, which its children may keep open.
                    await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Let it end, and kill it and the rest of its group."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            await self._learn_code()
            if not kill_group(process.pid, number):
                break
        await self._learn_code()
        if self._said and process.returncode != 0:
            log.warning("MCP server %r %s; it last said: %s", self._name, self._end, " | ".join(self._said))
        # A process that left the group may keep its pipes open.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()


_STRAY: JSONRPCMessage = JSONRPCNotification(jsonrpc="2.0", method="stray")
"""Marks an answer that is not passed on."""


class _UnreadableLine(Exception):
    """An unreadable message that may be an answer: its request is unknown, so all waiting calls fail."""


class _OutputLine:
    """One line as it grows. A line that is longer than a message may be keeps only its two ends."""

    def __init__(self) -> None:
        self.head, self.tail, self.cut = bytearray(), b"", False

    def add(self, part: bytes) -> None:
        """Add the next piece."""
        if not self.cut and len(self.head) + len(part) <= MESSAGE_BYTES_MAX:
            self.head += part
            return
        if not self.cut:
            self.cut, self.tail = True, bytes(self.head[-END_BYTES:])
            del self.head[END_BYTES:]
        self.tail = (self.tail + part)[-END_BYTES:]

    def answers(self) -> RequestId | None:
        """Return the id of the request that it answers, where one of its ends has it."""
        found = _first_id.match(self.head) or _last_id.search(self.tail)
        return int(found[1]) if found else None


@asynccontextmanager
async def start_server(server: McpServer, permits: Permits) -> AsyncIterator[tuple[StdioServer, object]]:
    """Yield the server and the SDK's pair of streams to it. Raises NotStarted."""
    if problem := permits.command_problem(server):
        raise NotStarted(Cause.BAD_CONFIGURATION, problem)
    try:
        process = await asyncio.create_subprocess_exec(
            server.command,
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=permits.environment_of(server.variables),
            start_new_session=True,
        )
    except LookupError as error:
        raise NotStarted(Cause.BAD_CONFIGURATION, str(error)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotStarted(Cause.BAD_CONFIGURATION, f"the command {server.command!r} does not start: {why}") from None
    running = StdioServer(server, process)
    to_session, from_server = anyio.create_memory_object_stream[Read](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](OUT_MAX)
    tasks = [
        asyncio.create_task(running.read(to_session)),
        asyncio.create_task(running.write(from_session)),
        asyncio.create_task(running.listen()),
    ]
    try:
        yield running, (from_server, to_server)
    finally:
        from_server.close()
        to_server.close()
        try:
            await asyncio.shield(asyncio.create_task(running.end()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            from_session.close()
