"""A run of chaos from beginning to end: disturbed phases and quiet ones in turn under a steady load, then a drain, then the judge."""

from __future__ import annotations

import heapq
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from simulator.installation.workers import DatabaseAway
from tests.chaos.faults.failpoints import PLACES, REFUSED, ticket
from tests.chaos.faults.nemesis import KINDS, Strikes, Undo, between, schedule
from tests.chaos.installation import CANCEL, RUN_CAP_USD_MICROS, Installation, Plan, installed
from tests.chaos.judging import judge, remembered
from tests.chaos.judging.judge import Case
from tests.chaos.processes.handles import now_us
from tests.chaos.processes.starter import FAIL

LONG_S = 600.0
DISTURBED_S, QUIET_S = 20.0, 30.0
PROBES = 8
PATIENCE_S = 300.0
SPARE = 2
"""Kills more than a short one needs: a call that turns out later to have been done is journaled, and its kill counts no more."""
CALM_S = 45.0
"""How long workers may take, after everything was healed, to be there again and to take over what the dead have left."""
DRAIN_S = 180.0
ANSWER_S = 5.0
ENDS = ("load-", CANCEL, "load-", FAIL, "load-")
"""How the runs of the load are to end, in turn: as they may, cancelled, failed."""
LOAD = {"sqlite": 12, "postgresql": 32}
"""Live runs that are kept up."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """The wishes for a campaign. ``kills``: it ends when so many have died; None: after ``seconds``."""

    plan: Plan
    seconds: float
    kills: int | None
    only: tuple[str, ...]
    seed: int
    keep: Path | None = None
    """Where the logs and the ledger are put in the end; None: nowhere."""
    live: int = 0
    """Live runs that are kept up; 0: as many as usual."""

    @property
    def names(self) -> tuple[str, ...]:
        """The strikes that make sense here, of those that are wanted."""
        return tuple(name for name in KINDS if name in self.only and KINDS[name].on(self.plan))

    @property
    def least_between(self) -> int:
        """Kills between effect and commit without which nothing follows; 0 where none were wanted."""
        if not any(KINDS[name].kills for name in self.names):
            return 0
        return judge.BETWEEN_LONG if self.long else judge.BETWEEN_SHORT

    @property
    def long(self) -> bool:
        """Return True if many kills are asked of it."""
        return self.seconds >= LONG_S or (self.kills or 0) >= judge.BETWEEN_LONG

    @property
    def at_most_s(self) -> float:
        """How long one that is short of such kills goes on. A short one gets minutes: how soon it has them hangs on the machine."""
        return 3 * self.seconds if self.seconds >= LONG_S else max(3 * self.seconds, PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a campaign."""

    line: dict[str, Any]
    void: list[str]
    """Why nothing follows from it."""
    bad: list[str]
    """What must never be, a sentence a case."""
    states: dict[str, int]
    strikes: dict[str, int]
    asked: dict[str, int]
    """Why runs asked a person, each reason counted (``judge.asked``)."""
    undone: int
    """Bookings that were cancelled, each because its run ended badly."""
    remembered: dict[str, int]
    """Entries of the fabric's memory, counted (``remembered.counted``)."""

    @property
    def good(self) -> bool:
        """Return True if it counts and nothing bad was found."""
        return not self.void and not self.bad


@dataclass(slots=True)
class Campaign:
    """One under way."""

    order: Order
    made: Installation
    say: Say
    disturbed_s: float = 0.0
    """Disturbed time so far, without the quiet phases."""
    done: dict[str, int] = field(default_factory=dict)
    probes: list[tuple[int, int]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """Probes that did not complete in time, each with what it waited for then."""
    _undos: list[tuple[float, int, str, Undo]] = field(default_factory=list)
    _number: int = 0
    _answered: dict[str, float] = field(default_factory=dict)
    """Reviews that were answered, and when they are answered again if they are still open: the worker that took the answer may have died."""
    _loading: threading.Event = field(default_factory=threading.Event)
    _begun: float = 0.0
    _between: tuple[int, int] = (0, 0)
    """Kills when it was last looked how many came between an effect and its commit, and how many that were."""

    def run(self) -> Case:
        """Disturbs until time is up or enough have died, drains, and gives what the judge needs."""
        strikes = schedule(self.order.seed, self.order.names)
        coming = next(strikes, None)
        self.settled()
        self._begun = time.monotonic()
        with self.load(self.order.live):
            try:
                while not self._over():
                    coming = self._disturb(strikes, coming, time.monotonic() + self._phase_s())
                    self._heal()
                    self._probe()
            finally:
                self._heal()
        self.drain()
        return self.case()

    @contextmanager
    def load(self, live: int = 0, ends: Sequence[str] = ENDS) -> Iterator[None]:
        """Keeps up runs under way while the block runs. ``live``: how many, 0: as many as usual; ``ends``: how they are to end, in turn."""
        wanted = live or LOAD[self.order.plan.db]
        thread = threading.Thread(target=self._keep_up_load, args=(wanted, ends), name="chaos-load", daemon=True)
        self._loading.clear()
        thread.start()
        try:
            yield
        finally:
            self._loading.set()
            thread.join()

    def _phase_s(self) -> float:
        return DISTURBED_S if self.order.seconds < LONG_S else 3 * DISTURBED_S

    def _enough_died(self) -> bool:
        return self.order.kills is not None and len(self.made.kills) >= self.order.kills

    def _over(self) -> bool:
        """Return True if enough have died, or time is up; one that would be void for want of kills goes on until it has them, or for ``at_most_s``."""
        passed = time.monotonic() - self._begun
        if self._enough_died() or passed < self.order.seconds:
            return self._enough_died()
        return passed >= self.order.at_most_s or not self._short()

    def _short(self) -> bool:
        """Return True if it would be void for want of kills between an effect and its commit."""
        kills = len(self.made.kills)
        if kills > self._between[0]:
            with suppress(DatabaseAway):
                self._between = kills, judge.between_effect_and_commit(self.case())
        least = self.order.least_between
        spare = SPARE if least and not self.order.long else 0
        return self._between[1] < least + spare

    # -- disturbed ----------------------------------------------------------------------------------------------------

    def _disturb(self, strikes: Iterator[Strikes], coming: Strikes | None, until: float) -> Strikes | None:
        """One disturbed phase; gives back the strike that is next. What is due within the order's time comes, however late the first phase gets to it."""
        before, first = time.monotonic() - self.disturbed_s, not self.disturbed_s
        while coming is not None and time.monotonic() < until and not self._enough_died():
            if self._over() and not (first and coming.at_s <= self.order.seconds):
                break
            now = time.monotonic()
            next_at = before + coming.at_s
            while self._undos and self._undos[0][0] <= now:
                self._undo()
            if now < next_at:
                times = [next_at, until, *(self._undos[0][:1] if self._undos else ())]
                time.sleep(max(0.0, min(0.5, min(times) - now)))
                continue
            self._strike(coming)
            coming = next(strikes, None)
        self.disturbed_s = time.monotonic() - before
        return coming

    def _strike(self, strike: Strikes) -> None:
        name, strikes = strike.name, KINDS[strike.name].strike
        if KINDS[name].kills and not self.order.long and (name == "failpoint" or name in self.done) and self._short():
            # Those that count come first: on a slow machine a process that is killed as often as usual may get nothing done in between.
            name, strikes = "failpoint", between
        self.say(f"{strike.at_s:7.1f} s  {name}")
        self.done[name] = self.done.get(name, 0) + 1
        lasting = strikes(self.made, Random(strike.seed))
        if lasting is not None:
            self._number += 1
            heapq.heappush(self._undos, (time.monotonic() + lasting[0], self._number, name, lasting[1]))

    def _undo(self) -> None:
        _, _, name, undo = heapq.heappop(self._undos)
        try:
            undo()
        except Exception as error:  # noqa: BLE001 - A server that was killed twice meanwhile; the last heal finds it.
            self.say(f"{name} could not be undone: {error}")

    # -- quiet --------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        while self._undos:
            # What was begun is not cut short: a worker that stands still for less than its lease is no zombie.
            time.sleep(max(0.0, self._undos[0][0] - time.monotonic()))
            self._undo()
        for place in PLACES:
            ticket(self.made.folder, place).unlink(missing_ok=True)
        self.made.heal()
        server = self.made.server
        if server is not None and server.postmaster() is None:
            server.start()

    def settled(self) -> bool:
        """Waits until every worker holds a lease and no run belongs to one that is gone; whether that came about."""
        give_up = time.monotonic() + CALM_S
        while time.monotonic() < give_up:
            pids = {slot.pid for slot in self.made.slots if slot.pid}
            try:
                all_there = len(pids) == len(self.made.slots) == len(self.made.rows.working(pids))
                if all_there and not self.made.rows.left_behind(pids):
                    return True
            except DatabaseAway:
                pass
            time.sleep(0.1)
        return False

    def _probe(self) -> None:
        """A quiet phase: runs that are started now complete soon."""
        self.answer()
        if not self.settled():
            self.say("quiet, but not every worker is back, or what the dead have left was not taken over")
        keys = [f"probe-{len(self.probes)}-{number}" for number in range(PROBES)]
        for key in keys:
            self.made.start(key)
        give_up = time.monotonic() + QUIET_S
        completed = 0
        while completed < PROBES and time.monotonic() < give_up:
            time.sleep(0.2)
            states = self.made.rows.read_states()
            completed = sum(states.get(self.made.runs.get(key, "")) == "completed" for key in keys)
        self.probes.append((PROBES, completed))
        self.say(f"quiet: {completed} of {PROBES} completed, {len(self.made.kills)} killed so far")
        if completed < PROBES:
            late = list(self._late(keys))
            self.late += late
            for sentence in late:
                self.say(sentence)

    def _late(self, keys: Sequence[str]) -> Iterator[str]:
        """One sentence for each probe that has not completed."""
        states, journals = self.made.rows.read_states(), self.made.rows.read_facts()
        for key in keys:
            run = self.made.runs.get(key, "")
            if not run:
                yield f"{key}: its start was not confirmed"
            elif states.get(run) != "completed":
                yield f"{key}: {judge.describe_wait(run, states.get(run, 'not there'), journals.get(run, ()), now_us())}"

    def _keep_up_load(self, wanted: int, ends: Sequence[str]) -> None:
        started = 0
        while not self._loading.wait(0.2):
            try:
                live = self.made.rows.live(asking=False)
            except DatabaseAway:
                continue
            for _ in range(max(0, wanted - live - self.made.unconfirmed())):
                started += 1
                self.made.start(f"{ends[started % len(ends)]}{started}")

    # -- the end ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Lets every run end, and answers every review that stands in the way."""
        give_up = time.monotonic() + DRAIN_S
        while time.monotonic() < give_up:
            try:
                if self.made.rows.live() + self.made.unconfirmed() == 0:
                    return
            except DatabaseAway:
                continue
            self.answer()
            time.sleep(0.2)

    def given_back(self) -> bool:
        """Waits until whatever the dead held of shared budgets was closed; whether that came about."""
        give_up = time.monotonic() + CALM_S
        while time.monotonic() < give_up:
            try:
                if not self.made.rows.left_open():
                    return True
            except DatabaseAway:
                pass
            time.sleep(0.1)
        return False

    def answer(self) -> None:
        """Does what an operator would: a run that was put away because its owners were killed goes on, a call that asks first is made, any other run that
        asks a person is cancelled.
        """
        now = time.monotonic()
        for review in self.made.rows.asking():
            if now < self._answered.get(review.id, 0.0):
                continue
            self._answered[review.id] = now + ANSWER_S
            if review.item in ("quarantine", "pre_action"):
                self.made.approve(review.id)
            else:
                self.made.cancel(review.run)

    def case(self) -> Case:
        """All that the judge looks at, as it stands now."""
        rows = self.made.rows
        return Case(
            ledger=self.made.ledger(),
            journals=rows.read_facts(),
            accepted=frozenset(self.made.runs.values()),
            states=rows.read_states(),
            costs=rows.costs(),
            cap=RUN_CAP_USD_MICROS,
            shared=tuple(rows.shared()),
            memory=tuple(rows.memory()),
            mutating=True,
            cancelled=frozenset(self.made.cancelled),
            kills=tuple(self.made.kills),
            parted=tuple(self.made.parted),
            away=tuple(self.made.server.away if self.made.server else ()),
            stale=tuple(rows.stale()),
            refused=len(self.made.said(REFUSED)),
            probes=(sum(asked for asked, _ in self.probes), sum(done for _, done in self.probes)),
            late=tuple(self.late),
        )


def run(order: Order, say: Say = lambda said: None) -> Outcome:
    """Puts an installation up, disturbs it, and judges. ServerMissing where a server cannot be had."""
    with installed(order.plan) as made:
        campaign = Campaign(order, made, say)
        case = campaign.run()
        kept = [] if campaign.given_back() else ["what the dead held of shared budgets was not closed"]
        unseen = list(_unseen(made))
        made.stop()
        if order.keep is not None:
            _kept(order.keep, made, case)
    void = judge.void(case, least_between=order.least_between, unseen=unseen)
    bad = [f"{name}: {sentence}" for name, verdict in judge.VERDICTS.items() for sentence in verdict(case)]
    bad += [f"put away: {sentence}" for sentence in judge.put_away(case)]
    bad += [f"ended: {sentence}" for sentence in judge.ended_otherwise(case)]
    bad += [f"crashed: {sentence}" for sentence in made.crashes]
    bad += [f"kept: {sentence}" for sentence in kept]
    states: dict[str, int] = {}
    for run_id in case.accepted:
        state = case.states.get(run_id, "not there")
        states[state] = states.get(state, 0) + 1
    return Outcome(
        judge.line(case, is_void=bool(void)),
        void,
        bad,
        states,
        campaign.done,
        judge.asked(case),
        judge.undone(case),
        remembered.counted(case.memory),
    )


def _kept(folder: Path, made: Installation, case: Case) -> None:
    shutil.copytree(made.folder, folder, dirs_exist_ok=True)
    (folder / "journals.json").write_text(json.dumps(case.journals, indent=0))
    (folder / "kills.json").write_text(json.dumps([asdict(kill) for kill in case.kills], indent=0))


def _unseen(made: Installation) -> Iterator[str]:
    if made.rows.on_postgresql and not made.rows.writes_seen():
        yield "the database has not looked at who writes"


def names(only: Collection[str]) -> tuple[str, ...]:
    """The strikes of ``--only``, all of them when none is given. ValueError for a name that there is not."""
    unknown = sorted(set(only) - set(KINDS))
    if unknown:
        raise ValueError(f"there is no strike {unknown[0]!r}; there are: {', '.join(KINDS)}")
    return tuple(only) or tuple(KINDS)


def small_disk(only: Collection[str]) -> bool:
    """Return True if the database is on a disk that can be filled up: where that is wanted, and this user may mount one."""
    return "disk_full" in only and os.geteuid() == 0
