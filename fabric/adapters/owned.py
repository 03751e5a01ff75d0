"""One run in a host's memory: what is under way of it, how its calls are prepared, how it is given back where its journal ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fabric.adapters.calls import Call, Key
from fabric.adapters.writer import JournalWriter
from fabric.core.commands import CallModel, CallTool
from fabric.core.context import Compiled
from fabric.core.envelope import from_row
from fabric.core.evolve import evolve
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.inputs import CallFailed, Result
from fabric.core.run import Run
from fabric.core.taxonomy import Cause
from fabric.runtime import projection, prompts
from fabric.runtime.driver import RunDriver
from fabric.runtime.ports import (
    Batch,
    Claimed,
    Clock,
    Document,
    JournalStore,
    ModelPort,
    StoreUnavailable,
    ToolOffer,
    ToolPort,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Revision:
    """What a host needs to know of a published revision."""

    compiled: Compiled
    offers: Mapping[str, ToolOffer]
    """Its tools as models are offered them, by name."""


@dataclass(slots=True)
class Ports:
    """What the host speaks to."""

    store: JournalStore
    writer: JournalWriter
    models: ModelPort
    tools: ToolPort
    clock: Clock
    revision: Callable[[str], Revision]
    """A published revision by row id. May wait for the database: it is called on the claimer's thread, once a claim."""


@dataclass(slots=True, eq=False)
class Owned:
    """A run that this process drives."""

    driver: RunDriver
    claimed: Claimed
    offers: Mapping[str, ToolOffer]
    ready: Batch | None = None
    """What became ready since the last hand-over to the writer."""
    writing: Batch | None = None
    """What the writer has of it; one batch at a time."""
    durable: Batch | None = None
    """What committed last since the claim."""
    out: set[Key] = field(default_factory=set)
    """Calls begun and not answered."""
    wake_at: int | None = None
    documents: tuple[Document, ...] | None = None
    broken: bool = False
    """True: it was let go of while a batch was being written; its row is given back when the fate of that is known."""

    @property
    def rests(self) -> bool:
        """Nothing of it is being written or is to be, and no call is out."""
        return self.writing is None and self.ready is None and not self.out


async def called(owned: Owned, command: CallModel | CallTool, ports: Ports) -> Result:
    """Makes one call: fetches what it needs, on a thread where that waits, asks the port, and gives back what came of it.

    What cannot be prepared (a content that was erased, documents that cannot be read) is a failed call that says so.
    """
    try:
        if owned.documents is None and _shows_documents(owned, command):
            owned.documents = await asyncio.to_thread(ports.store.documents, owned.claimed.run_id)
        call = _prepared(owned, command, ports)
    except Exception as error:
        log.exception("call %s of run %s could not be prepared", command.command_id, owned.claimed.run_id)
        away = isinstance(error, StoreUnavailable)
        return CallFailed(
            command_id=command.command_id,
            attempt=command.attempt,
            cause=Cause.NETWORK if away else Cause.BAD_CONFIGURATION,
            message=f"the call could not be prepared: {error}"[:500],
        )
    return await call()


def _shows_documents(owned: Owned, command: CallModel | CallTool) -> bool:
    """Whether the texts of attached documents go into the call itself; a tool reads them on its own thread."""
    if not isinstance(command, CallModel):
        return False
    return bool(owned.driver.compiled.spec.agent(command.agent).inline_document_chars)


def _prepared(owned: Owned, command: CallModel | CallTool, ports: Ports) -> Call:
    def documents() -> tuple[Document, ...]:
        if owned.documents is None:
            owned.documents = ports.store.documents(claimed.run_id)
        return owned.documents

    claimed, contents, spec = owned.claimed, owned.driver.contents, owned.driver.compiled.spec
    if isinstance(command, CallModel):
        asked = prompts.model_request(
            command,
            run_id=claimed.run_id,
            trace_id=claimed.trace_id,
            spec=spec,
            contents=contents,
            documents=documents,
            offers=owned.offers,
        )
        return lambda: ports.models.ask(asked)
    wanted = prompts.tool_request(
        command,
        run_id=claimed.run_id,
        trace_id=claimed.trace_id,
        spec=spec,
        contents=contents,
        documents=documents,
    )
    return lambda: ports.tools.run(wanted)


def given_back(claimed: Claimed, durable: Batch | None, at: int) -> Batch:
    """A batch without rows that releases a run where its journal ends, to be claimed again from ``at`` (microseconds since the epoch)."""
    if durable is not None:
        return replace(
            durable, last_seq=durable.new_seq, rows=(), consumed=(), escalations=(), wake_at=at, release=True
        )
    rows = claimed.rows
    return Batch(
        run_id=claimed.run_id,
        fence=claimed.fence,
        last_seq=rows[-1].seq if rows else 0,
        rows=(),
        head=rows[-1].hash if rows else ZERO_HASH,
        columns=projection.columns(_folded(claimed)),
        wake_at=at,
        release=True,
    )


def _folded(claimed: Claimed) -> Run:
    """The run as far as its journal can be read here: a newer version may have written the rest, and will write the columns anew."""
    run = Run(claimed.run_id, tier=claimed.tier, seed=claimed.seed)
    for row in claimed.rows:
        try:
            run = evolve(run, from_row(row.seq, row.kind, row.version, row.header))
        except Exception:
            log.exception("event %d of run %s cannot be read", row.seq, claimed.run_id)
            break
    return run
