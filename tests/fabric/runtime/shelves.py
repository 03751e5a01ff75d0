"""A run's journal as a store keeps it, judged by ``quarantine.verdict``."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import list_events, split_rows, verify_chain
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.evolve import fold
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import Append, Committed, Taken
from fabric.runtime.ports.journal import ClaimedRun, InboxItem, StoredRow
from fabric.runtime.quarantine.verdicts import CLAIMS_MAX, verdict
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS
from tests.fabric.core.standings import stood

S = 1_000_000
TORN = "event 4 is missing"


class Shelf:
    """A run's journal as a store keeps it, and what a claim of it brings."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World(lone(), {"worker": HANGS}).start().go(until_s=5)
        self.rows = list(self.world.rows)
        self.inbox: list[InboxItem] = []
        self.now = self.world.now + S

    def claimed(self, claims: int = 1, **changed) -> ClaimedRun:
        stored = tuple(
            StoredRow(r.seq, r.kind, r.version, r.header, r.payload, r.payload_hash, r.hash) for r in self.rows
        )
        given: dict[str, Any] = {
            "rows": stored,
            "last_seq": stored[-1].last_seq if stored else 0,
            "head": stored[-1].hash if stored else ZERO_HASH,
        }
        values: dict[str, Any] = (
            {
                "run_id": "run-1",
                "fence": 9,
                "revision_id": self.world.compiled.revision,
                "trace_id": "t" * 32,
                "seed": 7,
                "tier": self.world.tier,
                "inbox": tuple(self.inbox),
                "taken_over": True,
                "claims": claims,
            }
            | given
            | changed
        )
        return ClaimedRun(**values)

    def judged(self, claims: int = 1, *, damage: str = "", compiled=None, **changed):
        """The verdict, written."""
        batch = verdict(self.claimed(claims, **changed), self.now, damage=damage, compiled=compiled)
        if batch is not None:
            assert batch.release
            self.rows += batch.rows
            self.inbox = [item for item in self.inbox if item.input_id not in batch.consumed]
            chained = [(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in self.rows]
            assert verify_chain(chained, ZERO_HASH) is None
        return batch

    def put(self, given) -> None:
        self.inbox.append(stood(InboxItem("run-1", given.input_id, INBOX.dump_json(given))))

    def decide(self, verb: Any, *, input_id: str = "decision", message: str = "because", **changed) -> None:
        asked = [fact for fact in self.facts if isinstance(fact, ev.ReviewOpened)][-1]
        given = {"review_id": asked.review_id, "digest": asked.digest} | changed
        self.put(DecisionMade(input_id=input_id, verb=verb, actor="ada", message=message, **given))

    @property
    def facts(self):
        return [event.fact for event in list_events(self.rows)]

    @property
    def run(self) -> Run:
        events = list_events(self.rows)
        return fold(Run("run-1", tier=self.world.tier, seed=7), events)

    def go_on(self):
        """Return what the next owner writes; the kinds of its rows."""
        claimed = self.claimed()
        driver = RunDriver(self.world.compiled)
        kinds = []
        effects = driver.step(Taken(claimed, "next"), self.now)
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, Append):
                self.rows += effect.batch.rows
                kinds += [row.kind for row in split_rows(effect.batch.rows)]
                effects += driver.step(Committed(effect.batch.new_seq), self.now)
        return kinds


def quarantined(**given) -> Shelf:
    shelf = Shelf(**given)
    assert shelf.judged(CLAIMS_MAX + 1) is not None
    return shelf


def kinds(batch) -> list[str]:
    return [row.kind for row in split_rows(batch.rows)]
