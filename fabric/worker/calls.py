"""Makes the calls of a process: any number of them run on one asyncio loop.

A call in flight is a coroutine, never a thread. It is prepared, passes its circuit breakers, and is sent while the
lease covers it. Everything here happens on the loop's thread, and results go to one callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.inputs import CallFailed, CallStreamed, Result
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import SENDING, SendPermission
from fabric.runtime import prompts
from fabric.runtime.hosting.ownership import OwnedRun
from fabric.runtime.ports.journal import Document, StoreUnavailable
from fabric.worker.host_ports import Ports
from fabric.worker.lease import Lease
from fabric.worker.spending.breakers import Breakers

log = logging.getLogger(__name__)
LET_GO_S = 5.0
"""Seconds that a port has to end a cancelled call when the loop ends."""
Key = tuple[str, str, int]
"""``(run id, command id, attempt)``."""
Call = Callable[[], Coroutine[Any, Any, Result | None]]
"""Coroutine of a call; None: no request was made."""
OnResults = Callable[[list[tuple[Key, Result | None]]], None]


class Calls:
    """Runs calls on ``loop`` and reports their results.

    Results of one turn of the loop are reported together: they are then one step of the host and one commit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_results: OnResults, *, limit: int) -> None:
        self._loop = loop
        self._on_results = on_results
        self._room = asyncio.Semaphore(limit)
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._results: list[tuple[Key, Result | None]] = []
        self._unsent: set[Key] = set()
        self.inflight = 0
        self.inflight_peak = 0

    def begin(self, key: Key, call: Call) -> None:
        """Begin a call in the loop's next turn, or later when ``limit`` calls are in flight."""
        self._unsent.add(key)
        task = self._tasks[key] = self._loop.create_task(self._run(key, call))
        # Not in the coroutine: one that is cancelled before its first turn never comes to its end.
        task.add_done_callback(partial(self._forget, key))

    def abort(self, key: Key) -> None:
        """Cancel a call; nothing is reported for it any more."""
        if key in self._tasks:
            self._tasks[key].cancel()

    def abort_run(self, run_id: str) -> None:
        """Cancel every call of a run."""
        for key, task in self._tasks.items():
            if key[0] == run_id:
                task.cancel()

    def unsent(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Return ``(command id, attempt)`` of a run's calls that still wait for their turn: no request was made."""
        return frozenset((key[1], key[2]) for key in self._unsent if key[0] == run_id)

    def _forget(self, key: Key, task: asyncio.Task[None]) -> None:
        self._unsent.discard(key)
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _run(self, key: Key, call: Call) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self._room:
                self._unsent.discard(key)
                self.inflight += 1
                self.inflight_peak = max(self.inflight_peak, self.inflight)
                try:
                    result = await call()
                finally:
                    self.inflight -= 1
        except asyncio.CancelledError as error:
            result = _build_failure(key, error)  # A library's own cancellation that escaped: the host did not cancel.
        except Exception as error:
            # A port must not raise; if it does, the run still gets a truthful end and the log the traceback.
            log.exception("port raised for %s", key)
            result = _build_failure(key, error)
        if task.cancelling():  # The call was cancelled, whatever the port did then.
            return
        if not self._results:
            self._loop.call_soon(self._report)
        self._results.append((key, result))

    def _report(self) -> None:
        results, self._results = self._results, []
        self._on_results(results)

    async def end(self) -> None:
        """Cancel calls in flight; nothing is reported any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_S)


def _build_failure(key: Key, error: BaseException) -> CallFailed:
    message = f"the adapter failed: {type(error).__name__}: {error}"[:500]
    return CallFailed(command_id=key[1], attempt=key[2], cause=Cause.UNKNOWN, message=message, billed=True)


async def make_call(
    owned: OwnedRun,
    command: CallModel | CallTool,
    ports: Ports,
    lease: Lease,
    breakers: Breakers,
    streamed: Callable[[CallStreamed], None] | None = None,
) -> Result | None:
    """Make one call and return its result: fetch its inputs, on a thread where that waits, then call the port.

    1. ``streamed`` gets the calls of an answer as they come.
    2. None: no port was called, since the run may be another worker's by now. The lease answers that right before the
       call.
    3. HTTP ports check the lease once more when the bytes are about to leave, since a process may have been stopped
       in between.
    4. A call that cannot be prepared is a failed call with the reason: a content was erased, or documents cannot be
       read.
    """
    try:
        if owned.documents is None and _shows_documents(owned, command):
            owned.documents = await asyncio.to_thread(ports.store.documents, owned.claimed.run_id)
        call = _prepare_call(owned, command, ports, streamed)
    except Exception as error:
        log.exception("call %s of run %s could not be prepared", command.command_id, owned.claimed.run_id)
        away = isinstance(error, StoreUnavailable)
        return CallFailed(
            command_id=command.command_id,
            attempt=command.attempt,
            cause=Cause.NETWORK if away else Cause.BAD_CONFIGURATION,
            message=f"the call could not be prepared: {error}"[:500],
            outcome=Outcome.REJECTED,
        )
    if (refused := await breakers.passes(owned, command)) is not None:
        return await breakers.note_result(owned, command, refused)
    sending = SendPermission(lambda: lease.covers(owned.term))
    if not sending.is_allowed():
        return None
    token = SENDING.set(sending)
    try:
        result = await call()
    finally:
        SENDING.reset(token)
    return None if sending.stopped or result is None else await breakers.note_result(owned, command, result)


def _shows_documents(owned: OwnedRun, command: CallModel | CallTool) -> bool:
    """Return True if the texts of attached documents go into the call itself. A tool reads them on its own thread."""
    if not isinstance(command, CallModel):
        return False
    return bool(owned.driver.compiled_fabric.spec.agent(command.agent).inline_document_chars)


def _prepare_call(
    owned: OwnedRun, command: CallModel | CallTool, ports: Ports, streamed: Callable[[CallStreamed], None] | None
) -> Call:
    def documents() -> tuple[Document, ...]:
        if owned.documents is None:
            owned.documents = ports.store.documents(claimed.run_id)
        return owned.documents

    claimed, contents, spec = owned.claimed, owned.driver.contents, owned.driver.compiled_fabric.spec
    trace = prompts.find_run_trace(claimed)
    if isinstance(command, CallModel):
        asked = prompts.model_request(
            command,
            trace=trace,
            spec=spec,
            contents=contents,
            documents=documents,
            offers=owned.offers,
            workspace=claimed.workspace_id,
            child=owned.driver.run.family.lineage is not None,
            streamed=streamed,
        )
        return lambda: ports.models.ask(asked)
    wanted = prompts.tool_request(
        command,
        trace=trace,
        spec=spec,
        contents=contents,
        documents=documents,
        fabric_id=claimed.fabric_id,
    )
    return lambda: ports.tools.run(wanted)
