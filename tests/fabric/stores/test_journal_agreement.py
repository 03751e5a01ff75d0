"""The memory store against a file: the same calls get the same answers, so what the simulator finds out holds for a worker."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.runtime.ports.batch_parts import FamilyCaps, RunMark, Send, Snapshot
from fabric.runtime.ports.journal import BatchFate, ClaimedRun
from fabric.runtime.quarantine.verdicts import is_suspect
from tests.fabric.stores.journal_worlds import NOON, SECOND, Journal, MemoryWorld, SqliteWorld, columns, new_run

HOSTS = ("host-1", "host-2", "host-3")
PLAYS = 3
STEPS = 220
PROGRAM = "program-1"
STATES = (RunState.RUNNING, RunState.WAITING, RunState.QUARANTINED, RunState.COMPLETED)


@dataclass
class Play:
    """Draws calls, makes them on both stores, and keeps what the owners know."""

    rng: random.Random
    worlds: tuple[MemoryWorld, SqliteWorld]
    runs: list[str] = field(default_factory=list)
    owned: dict[str, Journal] = field(default_factory=dict)
    lineage: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def both(self, call: str, *given, **named):
        answers = [getattr(world.store, call)(*given, **named) for world in self.worlds]
        assert answers[0] == answers[1], call
        return answers[0]

    def step(self) -> None:
        calls: dict[Callable[[], None], float] = {
            self.create: 2,
            self.arrive: 3,
            self.withdraw: 1,
            self.hasten: 1,
            self.claim: 4,
            self.write: 6,
            self.look: 2,
            self.pass_time: 2,
        }
        calls |= {self.retire: 0.2, self.beat: 1}
        self.rng.choices(list(calls), list(calls.values()))[0]()

    def create(self) -> None:
        number = self.rng.randrange(1_000_000)
        run = new_run(
            run_id=f"r{number:06}",
            priority=self.rng.choice(("critical", "high", "normal", "low")),
            queue=self.rng.choice(("default", "gpu")),
            format=self.rng.choice((1, 1, 1, 2)),
            start_key=self.rng.choice(("", "", f"key-{number % 5}")),
        )
        run_id, created = self.both("create", run)
        if created:
            self.runs.append(run_id)
            self.lineage[run_id] = (None, run_id)

    def arrive(self) -> None:
        if self.runs:
            how = {
                "delay_s": self.rng.choice((0, 0, 30, 90)),
                "wakes": self.rng.choice((0, 1, 1, 2)),
                "format": self.rng.choice((1, 1, 2)),
            }
            self.both("put_input", self.rng.choice(self.runs), f"input-{self.rng.randrange(9)}", b"body", **how)

    def withdraw(self) -> None:
        if self.runs:
            self.both("withdraw_input", self.rng.choice(self.runs), f"input-{self.rng.randrange(9)}")

    def hasten(self) -> None:
        if self.runs:
            self.both("hasten_input", self.rng.choice(self.runs), f"input-{self.rng.randrange(9)}")

    def claim(self) -> None:
        asked = {
            "limit": self.rng.choice((1, 2, 5)),
            "queues": self.rng.choice((["default"], ["default", "gpu"])),
            "format": self.rng.choice((1, 2)),
            "again": self.rng.sample(self.runs, min(2, len(self.runs))) if self.rng.random() < 0.2 else (),
            "steady": self.rng.random() < 0.8,
            "digest": self.rng.choice(("", PROGRAM, "other")),
        }
        claimed: list[ClaimedRun] = self.both("claim", self.rng.choice(HOSTS), **asked)
        for run in claimed:
            self.seen |= {"taken_over"} if run.taken_over else set()
            self.seen |= {"from a snapshot"} if run.snapshot else set()
            self.seen |= {"announced"} if run.announced else set()
            self.seen |= {"a suspect"} if is_suspect(run.claims - 1) else set()
            self.owned[run.run_id] = Journal(run.run_id, run.fence, run.last_seq, run.head)

    def write(self) -> None:
        if not self.owned:
            return
        picked = self.rng.sample(sorted(self.owned), min(len(self.owned), self.rng.randrange(1, 4)))
        batches = [self.batch(self.owned[run_id]) for run_id in picked]
        if self.rng.random() < 0.1:
            batches[0] = replace(batches[0], fence=batches[0].fence - 1)
        for batch, fate in zip(batches, self.both("write", batches), strict=True):
            self.seen.add(fate.value)
            if fate is BatchFate.COMMITTED:
                self.runs += [child.run_id for child in batch.children if child.run_id not in self.runs]
                for child in batch.children:
                    self.lineage[child.run_id] = (child.parent_run_id, child.root_run_id)
            if fate is not BatchFate.COMMITTED or batch.release:
                del self.owned[batch.run_id]

    def batch(self, journal: Journal):
        rng, run_id = self.rng, journal.run_id
        kept = columns(
            rng.choices(STATES, (6, 2, 1, 1))[0],
            cost_usd_micros=rng.randrange(99),
            ended_at=rng.choice((None, NOON)),
            fired=rng.choice(("", "\nbudget\n", "\nbudget\nretry\n")),
            breakers=rng.choice(("", "\nprovider:openai\n")),
            unconfirmed_usd_micros=rng.randrange(9),
            spent_on=rng.choice(("", '{"agent":{},"model":{"fast":7}}')),
        )
        mark = RunMark(
            state=rng.choice(STATES),
            reason="marked",
            ended_at=rng.choice((None, NOON)),
            recovered=rng.choice((None, True, False)),
            charged_usd_micros=(charged := rng.randrange(9)),
            spent_on='{"agent":{},"model":{"fast":8}}' if charged % 2 else None,
        )
        changed: dict[str, Any] = {
            "columns": rng.choices((kept, mark, None), (8, 1, 1))[0],
            "release": rng.random() < 0.4,
            "wake_at": rng.choice((None, self.worlds[0].clock.us + rng.randrange(-50, 50) * SECOND)),
            "format": rng.choice((0, 0, 0, 1, 2)),
            "consumed": (f"input-{rng.randrange(9)}",) if rng.random() < 0.1 else (),
        }
        if rng.random() < 0.3:
            _, root = self.lineage[run_id]
            numbers = range(rng.randrange(1, 4))
            lineage = {"parent_run_id": run_id, "root_run_id": root}
            changed["children"] = tuple(new_run(run_id=f"{run_id}.{number}", **lineage) for number in numbers)
            changed["caps"] = FamilyCaps(alive=4, spawned=7)
        if rng.random() < 0.3:
            to = rng.choice([*self.runs, f"{run_id}.0"])
            changed["sends"] = (
                Send(run_id=to, input_id=f"input-{rng.randrange(9)}", body=b"sent", wakes=rng.choice((0, 1, 2))),
            )
        made = journal.batch(rng.randrange(4), **changed)
        if rng.random() < 0.3 and journal.last_seq:
            refs = tuple(sorted(rng.sample(range(1, journal.last_seq + 1), min(2, journal.last_seq))))
            taken = Snapshot(seq=journal.last_seq, digest=PROGRAM, head=journal.head, state=b"s", refs=refs)
            made = replace(made, snapshot=taken)
        return made

    def look(self) -> None:
        host = self.rng.choice(HOSTS)
        self.both("inbox", host)
        self.both("owned_by", host)
        self.both("next_due_s")
        self.both("heads", self.runs)
        for run_id in self.runs[-3:]:
            names = (
                "state",
                "cost_usd_micros",
                "reason",
                "fired",
                "breakers",
                "unconfirmed_usd_micros",
                "spent_on",
                "ended_at",
                "format",
                "claims",
                "parent_run_id",
                "root_run_id",
            )
            assert self.worlds[0].row(run_id, *names) == self.worlds[1].row(run_id, *names)
            assert self.worlds[0].family(run_id) == self.worlds[1].family(run_id)
            assert self.worlds[0].unconsumed(run_id) == self.worlds[1].unconsumed(run_id)

    def pass_time(self) -> None:
        seconds = self.rng.choice((0, 1, 20, 61))
        for world in self.worlds:
            world.pass_time(seconds)

    def beat(self) -> None:
        self.both("beat", self.rng.choice(HOSTS), lease_s=100)

    def retire(self) -> None:
        self.both("retire", self.rng.choice(HOSTS[1:]))


def test_the_same_calls_get_the_same_answers(sqlite_template, tmp_path):
    seen: set[str] = set()
    for seed in range(PLAYS):
        (tmp_path / f"{seed}").mkdir()
        play = Play(random.Random(seed), (MemoryWorld(), SqliteWorld(sqlite_template, tmp_path / f"{seed}")), seen=seen)
        for host in HOSTS:
            play.both("register", host, lease_s=100)
        for _ in range(STEPS):
            play.step()
        play.look()
        play.worlds[1].close()
    by_journal = {fate for fate in BatchFate if fate is not BatchFate.GRANT_GONE}  # That one the stores of grants give.
    assert seen == {*by_journal, "taken_over", "from a snapshot", "announced", "a suspect"}, (
        "what does not happen is not compared"
    )
