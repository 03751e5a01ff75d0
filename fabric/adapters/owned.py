"""One run in a host's memory: what is under way of it, how its calls are prepared, how it is given back where its journal ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fabric.adapters.breakers import Breakers
from fabric.adapters.calls import Call, Key
from fabric.adapters.elapsed import Elapsed, elapsed_s
from fabric.adapters.journal_rows import is_over, progresses
from fabric.adapters.lease import Lease
from fabric.adapters.tools.outbound import SENDING, Sending
from fabric.adapters.writer import JournalWriter
from fabric.core.commands import CallModel, CallTool
from fabric.core.context import Compiled
from fabric.core.inputs import CallFailed, CallStreamed, Result
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.runtime import prompts
from fabric.runtime.call_ports import ModelPort, ToolOffer, ToolPort
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import BucketStore, GrantStore, GuardStore
from fabric.runtime.ports import Batch, Claimed, Clock, Document, JournalStore, StoreUnavailable
from fabric.runtime.suspects import is_suspect

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Revision:
    """What a host needs to know of a published revision."""

    compiled: Compiled
    offers: Mapping[str, ToolOffer]
    """Its tools as models are offered them, by name."""


def pin_of(claimed: Claimed) -> str:
    """What a run is driven by: its revision; under a policy of its workspace, that version of it and the run's tier too."""
    if not claimed.policy_number:
        return claimed.revision_id
    return f"{claimed.revision_id} {claimed.workspace_id} {claimed.policy_number} {claimed.tier}"


@dataclass(slots=True)
class Ports:
    """What the host speaks to."""

    store: JournalStore
    writer: JournalWriter
    models: ModelPort
    tools: ToolPort
    clock: Clock
    elapsed: Elapsed = field(default=elapsed_s, kw_only=True)
    """What the lease is timed by."""
    revision: Callable[[str], Revision]
    """A published revision by row id. May wait for the database: it is called on the claimer's thread, once a claim."""
    grants: GrantStore | None = None
    """Without it, a run that falls under a shared budget is refused."""
    buckets: BucketStore | None = None
    guards: GuardStore | None = None
    """Without it, no circuit breaker ever opens."""
    under_policy: Callable[[Claimed], Revision] | None = None
    """The revision of a run whose workspace has a policy, as that has it. Called as ``revision`` is. Without it, such a run waits."""


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
    term: int = 0
    """The last term of the lease in which it was surely this process's (``Lease.covers``)."""
    broken: bool = False
    """True: it was let go of while a batch was being written; its row is given back when the fate of that is known."""

    @property
    def rests(self) -> bool:
        """Nothing of it is being written or is to be, and no call is out."""
        return self.writing is None and self.ready is None and not self.out


async def called(
    owned: Owned,
    command: CallModel | CallTool,
    ports: Ports,
    lease: Lease,
    breakers: Breakers,
    streamed: Callable[[CallStreamed], None] | None = None,
) -> Result | None:
    """Makes one call: fetches what it needs, on a thread where that waits, asks the port, and gives back what came of it. ``streamed``: told of the calls of
    an answer as they come.

    None: nobody was asked, since the run may be another's by now. The lease says whether it surely is not: it is asked right before the port is.
    Ports that go out by HTTP ask it once more when the bytes are about to leave, since a process may have been stopped in between.
    A call that cannot be prepared is a failed call that says why: a content was erased, or documents cannot be read.
    """
    try:
        if owned.documents is None and _shows_documents(owned, command):
            owned.documents = await asyncio.to_thread(ports.store.documents, owned.claimed.run_id)
        call = _prepared(owned, command, ports, streamed)
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
        return await breakers.noted(owned, command, refused)
    sending = Sending(lambda: lease.covers(owned.term))
    if not sending.allowed():
        return None
    token = SENDING.set(sending)
    try:
        result = await call()
    finally:
        SENDING.reset(token)
    return None if sending.stopped or result is None else await breakers.noted(owned, command, result)


def _shows_documents(owned: Owned, command: CallModel | CallTool) -> bool:
    """Whether the texts of attached documents go into the call itself; a tool reads them on its own thread."""
    if not isinstance(command, CallModel):
        return False
    return bool(owned.driver.compiled.spec.agent(command.agent).inline_document_chars)


def _prepared(
    owned: Owned, command: CallModel | CallTool, ports: Ports, streamed: Callable[[CallStreamed], None] | None
) -> Call:
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
            workspace=claimed.workspace_id,
            child=owned.driver.run.family.lineage is not None,
            streamed=streamed,
        )
        return lambda: ports.models.ask(asked)
    wanted = prompts.tool_request(
        command,
        run_id=claimed.run_id,
        trace_id=claimed.trace_id,
        spec=spec,
        contents=contents,
        documents=documents,
        fabric_id=claimed.fabric_id,
    )
    return lambda: ports.tools.run(wanted)


def stirs(batch: Batch, claimed: Claimed) -> bool:
    """Whether something may be due once it has committed: runs of the family, its own, which input came for while it was given back, or another suspect."""
    return bool(batch.children or batch.sends) or (batch.release and not is_over(batch)) or makes_room(batch, claimed)


def makes_room(batch: Batch, claimed: Claimed) -> bool:
    """Whether a suspect is none any more, or not held any more, once it has committed: another may be taken (``runtime/suspects.py``)."""
    return is_suspect(claimed.claims - 1) and (batch.release or progresses(batch))


def given_back(claimed: Claimed, durable: Batch | None, at: int) -> Batch:
    """A batch without rows that releases a run where its journal ends, to be claimed again from ``at`` (microseconds since the epoch).

    ``durable``: the last batch that committed since the claim. What the row shows of the run stays as it is.
    """
    return Batch(
        run_id=claimed.run_id,
        fence=claimed.fence,
        last_seq=claimed.last_seq if durable is None else durable.new_seq,
        rows=(),
        head=claimed.head if durable is None else durable.head,
        columns=None,
        wake_at=at,
        release=True,
    )
