"""The journal store in memory: the contract of the real ones, on a given clock.

Rules can be left out (``plants``), so that the simulator can prove that it notices. The next call can be made to fail
as a database does (``fail_next``). Time passes only in the clock; equal calls give equal answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock

from fabric.core.audit.lines import AuditEntry
from fabric.core.events.envelope import JournalRow
from fabric.core.people.eligibility import ALONE
from fabric.core.people.roles import Role, write_roles
from fabric.core.values.flow import FORMAT
from fabric.core.values.frozen import replace
from fabric.core.values.units import US
from fabric.runtime.ports.batch_parts import ReviewChange, RunColumns
from fabric.runtime.ports.journal import (
    TAKEN_BACK,
    Batch,
    BatchFate,
    ClaimedRun,
    Clock,
    Document,
    Head,
    InboxItem,
    InputWithdrawn,
    NewRun,
    StoredRow,
    StoreUnavailable,
)
from fabric.runtime.quarantine.verdicts import count_admitted, is_suspect
from fabric.stores.errors import IncarnationRetired, RunMissing, StoreBusy
from fabric.stores.rows import Counters, add_standings, check_batches, count_fitting, weight
from simulator.stores.contract import Failure
from simulator.stores.memory.grants import MemoryGrants
from simulator.stores.memory.rows import IncarnationRow, InputRow, RunRow, Tables
from simulator.stores.memory.writes import write


class MemoryStore(Counters):
    """``ports.JournalStore`` in dicts. ``fabrics``: fabric of each revision; an unknown revision is a fabric of its
    own.

    Plants:

    - ``no_fence``: a batch is written for any owner of the run.
    - ``no_unique_input``: a repeated input is inserted again.
    - ``withdrawn_stays``: a withdrawn input is delivered all the same.
    - ``roles_unchecked``: an answer is written for any roles of its author.
    """

    def __init__(
        self, clock: Clock, *, plants: frozenset[str] = frozenset(), fabrics: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._clock, self._fabrics = clock, fabrics or {}
        self._fenced = "no_fence" not in plants
        self._unique = "no_unique_input" not in plants
        self._takes_back = "withdrawn_stays" not in plants
        self._forgets = "roles_unchecked" in plants
        self.tables = Tables()
        self._failures: dict[str, list[Failure]] = {}
        self._late: list[Sequence[Batch]] = []
        self._guard = RLock()
        self.grants = MemoryGrants(clock, lambda name: self._has_lease(name, clock.now()), plants=plants)
        """The shared budgets that its batches reserve from."""
        self.people: dict[str, str | None] | None = None
        """Roles of the people who may decide, as a member's row has them; None: every person has all roles."""
        self.audit: list[tuple[str, AuditEntry]] = []
        """Audited acts that came with inputs, each with its run."""

    @property
    def reviews(self) -> Mapping[str, tuple[str, ReviewChange]]:
        """Return the present state of every review with its run."""
        return self.tables.reviews

    def fail_next(self, failure: Failure, *, call: str = "write", times: int = 1) -> None:
        """Make the next calls of that name fail in this way: ``write``, ``claim``, ``heads`` ..."""
        self._failures.setdefault(call, []).extend([failure] * times)

    def _fail_as_ordered(self, call: str) -> Failure | None:
        """Raise the ordered failure of this call.

        ``landed`` or ``late`` are returned: the caller makes the change, now or later, and loses its answer.
        """
        ordered = self._failures.get(call)
        if not ordered:
            return None
        failure = ordered.pop(0)
        if failure in ("landed", "late"):
            return failure
        if failure == "busy":
            raise StoreBusy("the memory store was told to be busy")
        raise StoreUnavailable("the memory store was told not to answer", unknown=failure == "lost")

    @staticmethod
    def _answer_lost() -> StoreUnavailable:
        return StoreUnavailable("the memory store was told to lose its answer", unknown=True)

    # -- from outside -------------------------------------------------------------------------------------------------

    def create(self, run: NewRun, *, audit: AuditEntry | None = None) -> tuple[str, bool]:
        """See ``ports.JournalStore``."""
        with self._guard:
            landed = self._fail_as_ordered("create")
            key, tables = (run.workspace_id, run.start_key), self.tables
            known = tables.start_keys.get(key) if run.start_key else None
            known = known or (run.run_id if run.run_id in tables.runs else None)
            self.statements += 1
            if known:
                return known, False
            tables.insert(run, self._clock.now())
            if run.start_key:
                tables.start_keys[key] = run.run_id
            if audit:
                self.audit.append((run.run_id, audit))
            self.commits += 1
            if landed:
                raise self._answer_lost()
            return run.run_id, True

    def put_input(
        self,
        run_id: str,
        input_id: str,
        body: bytes,
        *,
        delay_s: float = 0.0,
        format: int = 1,
        wakes: int = 1,
        audit: AuditEntry | None = None,
    ) -> bool:
        """See ``ports.JournalStore``. Raises RunMissing for an unknown run. An ended run keeps the input, closed."""
        with self._guard:
            landed = self._fail_as_ordered("put_input")
            run = self.tables.runs.get(run_id)
            if run is None:
                raise RunMissing(run_id)
            self.statements += 1
            if self._unique and any(item.input_id == input_id for item in run.inbox):
                return False
            now = self._clock.now()
            visible_at = now + round(delay_s * US)
            self.tables.arrive(run, InputRow(input_id, body, now, visible_at, wakes=wakes, format=format))
            if audit:
                self.audit.append((run_id, audit))
            self.commits += 1
            if landed:
                raise self._answer_lost()
            return True

    def withdraw_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> InputWithdrawn:
        """See ``ports.JournalStore``."""
        with self._guard:
            found = self._inputs("withdraw_input", run_id, input_id)
            waiting = [item for item in found if item.consumed_seq is None]
            if waiting:
                if self._takes_back:
                    waiting[0].consumed_seq = TAKEN_BACK
                self._record_audit(run_id, audit)
                return InputWithdrawn.GONE
            taken = any(item.consumed_seq != TAKEN_BACK for item in found)
            return InputWithdrawn.TOO_LATE if taken else InputWithdrawn.UNKNOWN

    def hasten_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> bool:
        """See ``ports.JournalStore``."""
        with self._guard:
            now = self._clock.now()
            found = self._inputs("hasten_input", run_id, input_id)
            waiting = [item for item in found if item.consumed_seq is None and item.visible_at > now]
            for item in waiting:
                item.visible_at = now
                self._record_audit(run_id, audit)
            return bool(waiting)

    def _inputs(self, call: str, run_id: str, input_id: str) -> list[InputRow]:
        self._fail_as_ordered(call)
        self.statements += 1
        run = self.tables.runs.get(run_id)
        return [item for item in run.inbox if item.input_id == input_id] if run else []

    def _record_audit(self, run_id: str, audit: AuditEntry | None) -> None:
        self.commits += 1
        if audit:
            self.audit.append((run_id, audit))

    # -- ownership ----------------------------------------------------------------------------------------------------

    def register(self, incarnation: str, *, lease_s: float, token: int = 0) -> None:
        """See ``ports.JournalStore``. Raises IncarnationRetired for a name that was retired, or is another
        process's.
        """
        with self._guard:
            self._fail_as_ordered("register")
            until = self._clock.now() + round(lease_s * US)
            known = self.tables.incarnations.setdefault(incarnation, IncarnationRow(until, token))
            if known.retired or known.token != token:
                raise IncarnationRetired(incarnation)
            known.lease_until = until

    def now(self) -> int:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("now")
            return self._clock.now()

    def beat(self, incarnation: str, *, lease_s: float, refused: int = 0) -> int:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("beat")
            known, now = self.tables.incarnations.get(incarnation), self._clock.now()
            if known is None or known.retired:
                return 0
            known.lease_until = now + round(lease_s * US)
            known.refused_writes = max(known.refused_writes, refused)
            return now

    def retire(self, incarnation: str) -> None:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("retire")
            if incarnation in self.tables.incarnations:
                self.tables.incarnations[incarnation].retired = True

    def _has_lease(self, incarnation: str | None, now: int) -> bool:
        known = self.tables.incarnations.get(incarnation) if incarnation is not None else None
        return known is not None and not known.retired and known.lease_until > now

    def claim(
        self,
        incarnation: str,
        *,
        limit: int,
        queues: Sequence[str],
        format: int = FORMAT,
        again: Sequence[str] = (),
        steady: bool = True,
        digest: str = "",
    ) -> list[ClaimedRun]:
        """See ``ports.JournalStore``. An incarnation with a lapsed lease gets nothing."""
        with self._guard:
            self._fail_as_ordered("claim")
            now = self._clock.now()
            self.statements += 1
            if not self._has_lease(incarnation, now):
                return []
            due = [run for run in self.tables.live.values() if run.new.queue in queues and not run.over]
            due = [
                run
                for run in due
                if (run.incarnation == incarnation and run.new.run_id in again)
                or (run.format <= format and self._claimable(run, now, format, steady))
            ]
            due = sorted(self._in_turn(due, incarnation, again), key=lambda run: run.urgency)[:limit]
            fits = count_fitting(run.size(digest) for run in due)
            claimed = [self._hand_out(run, incarnation, now, digest, cut=fits < len(due)) for run in due[:fits]]
            self.commits += bool(claimed)
            return claimed

    def _hand_out(self, run: RunRow, incarnation: str, now: int, digest: str, *, cut: bool) -> ClaimedRun:
        capped = self.grants.has_budget(f"workspace:{run.new.workspace_id}")
        fabric = self._fabrics.get(run.new.revision_id, run.new.revision_id)
        claimed = run.take(incarnation, now, digest, fabric_id=fabric, capped=capped, cut=cut)
        inbox, announced = (tuple(add_standings(items, self._hold)) for items in (claimed.inbox, claimed.announced))
        return replace(claimed, inbox=inbox, announced=announced)

    def _in_turn(self, due: list[RunRow], incarnation: str, again: Sequence[str]) -> list[RunRow]:
        """Return what is due, with no more suspects than the worker may own (``runtime/quarantine/verdicts.py``)."""
        asked = [run for run in due if is_suspect(run.claims)]
        if not asked:
            return due
        asked.sort(key=lambda run: (run.incarnation != incarnation, run.urgency))
        mine = [
            run for run in self.tables.live.values() if run.incarnation == incarnation and run.new.run_id not in again
        ]
        owned = sum(is_suspect(run.claims - 1) for run in mine)
        left = {run.new.run_id for run in asked[count_admitted(owned) :]}
        return [run for run in due if run.new.run_id not in left]

    def _claimable(self, run: RunRow, now: int, format: int, steady: bool) -> bool:
        if run.incarnation is None:
            return run.due(now, format)
        known = self.tables.incarnations.get(run.incarnation)
        return known is None or known.retired or (steady and known.lease_until <= now)

    def owned_by(self, incarnation: str) -> Sequence[str]:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("owned_by")
            self.statements += 1
            return sorted(run_id for run_id, run in self.tables.live.items() if run.incarnation == incarnation)

    def hold(self, name: str, roles: str | None) -> None:
        """Set the roles of a person; None ends the membership."""
        self.people = {**(self.people or {}), name: roles}

    # -- the owner's --------------------------------------------------------------------------------------------------

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("inbox")
            now = self._clock.now()
            self.statements += 1
            found = [
                one
                for run in self.tables.live.values()
                if run.incarnation == incarnation
                for one in run.list_waiting(now)
            ]
            return add_standings((item for _, _, item in sorted(found, key=lambda one: one[:2])), self._hold)

    def _hold(self, asked: Sequence[tuple[str, str]]) -> list[str | None]:
        """See ``rows.Looks``."""
        return [self.holds(name) for _, name in asked]

    def holds(self, name: str) -> str | None:
        """Return a person's roles, as a member's row has them; None if they may not decide."""
        if self.people is None:
            return write_roles(list(Role))
        roles = self.people.get(name)
        alone = [one for one, held in self.people.items() if held is not None] == [name]
        return f"{ALONE},{roles}" if alone else roles

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """See ``ports.JournalStore``."""
        with self._guard:
            failure = self._fail_as_ordered("write")
            if failure == "late":
                self._late.append(batches)
                raise self._answer_lost()
            check_batches(batches)
            while self._late:
                self._write(self._late.pop(0))
            fates = self._write(batches)
            self.statements += 1
            self.commits += BatchFate.COMMITTED in fates
            if failure:
                raise self._answer_lost()
            return fates

    def _write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        holds = None if self._forgets else self.holds
        fates = write(self.tables, self.grants, batches, self._clock.now(), fenced=self._fenced, holds=holds)
        written = [batch for batch, fate in zip(batches, fates, strict=True) if fate is BatchFate.COMMITTED]
        self.bytes_written += sum(map(weight, written))
        return fates

    # -- reads --------------------------------------------------------------------------------------------------------

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """See ``ports.JournalStore``; unknown runs are left out."""
        with self._guard:
            self._fail_as_ordered("heads")
            found = {run_id: self.tables.runs[run_id] for run_id in run_ids if run_id in self.tables.runs}
            return {run_id: Head(run.fence, run.last_seq, run.head) for run_id, run in found.items()}

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("journal")
            run = self.tables.runs.get(run_id)
            rows = [row for row in run.stored if row.seq > after] if run else []
            return rows[:limit]

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """See ``ports.JournalStore``."""
        run = self.tables.runs.get(run_id)
        root = self.tables.runs.get(run.new.root_run_id or run_id) if run else None
        return root.new.documents if root else ()

    def next_due_s(self) -> float | None:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._fail_as_ordered("next_due_s")
            now = self._clock.now()
            due = [at for run in self.tables.live.values() for at in run.next_due(now)]
            return (min(due) - now) / US if due else None

    def rows(self, run_id: str) -> tuple[JournalRow, ...]:
        """Return a run's journal as it was written, with the instants that ``journal`` leaves in the header."""
        return tuple(self.tables.runs[run_id].rows)

    def columns(self, run_id: str) -> RunColumns:
        """Return a run's projection as its last batch left it."""
        return self.tables.runs[run_id].columns

    def read_standing(self, run_id: str) -> tuple[str | None, int, int]:
        """Return ``(owner, fence, claims since it made progress)`` of a run."""
        run = self.tables.runs[run_id]
        return run.incarnation, run.fence, run.claims

    def run_ids(self) -> tuple[str, ...]:
        """Return every run, in the order of creation."""
        return tuple(self.tables.runs)
