"""Chaos of one kind, counted: processes that stand still past their lease (``zombies``), workers killed (``takeover``), restarted in turn (``deploy``), a
broker that is away for minutes (``outage``).

Each puts up an installation of its own on PostgreSQL under a load, and ends with a line of figures and with what must not have been, in sentences.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, inf
from pathlib import Path
from typing import Any

from simulator.installation.database import ROOT
from tests.chaos.campaign import CALM_S, ENDS, Campaign, Order, Say
from tests.chaos.faults.failpoints import REFUSED
from tests.chaos.faults.nemesis import PAUSE_S
from tests.chaos.installation import Installation, Plan, installed
from tests.chaos.judging import judge
from tests.chaos.judging.judge import Case
from tests.chaos.processes.handles import Slot, now_us
from tests.chaos.processes.starter import ASKS

Line = dict[str, Any]
Found = tuple[Line, list[str]]
"""The last line, and what must not have been."""
AWAKE_S = 20.0
"""How long a process that woke may take to be refused something: it has answers in its memory that it will try to write."""


@contextmanager
def _put_up(plan: Plan) -> Iterator[Campaign]:
    with installed(plan) as made:
        campaign = Campaign(Order(plan, 0.0, None, (), 0), made, lambda said: None)
        campaign.settled()
        yield campaign


def _judged(campaign: Campaign) -> tuple[Case, list[str]]:
    """Lets everything end, and says what must never be."""
    campaign.drain()
    case = campaign.case()
    campaign.made.stop()
    bad = [f"{name}: {sentence}" for name, verdict in judge.VERDICTS.items() for sentence in verdict(case)]
    bad += [f"ended: {sentence}" for sentence in judge.ended_otherwise(case)]
    bad += [f"crashed: {sentence}" for sentence in campaign.made.crashes]
    return case, bad


def _until(done: Callable[[], bool], within_s: float) -> bool:
    give_up = time.monotonic() + within_s
    while not (came := done()) and time.monotonic() < give_up:
        time.sleep(0.1)
    return came


# -- zombies ---------------------------------------------------------------------------------------------------------


def zombies(trials: int, workers: int, say: Say, live: int = 0) -> Found:
    """Half of the workers at a time stand still past their lease while they own runs, and wake: each is refused what it then writes.

    One that woke with nothing to write (its runs waited for answers, and were another's when they came) shows nothing, and is tried again.
    """
    refused: list[int] = []
    idle = 0
    with _put_up(Plan("postgresql", "redis", workers)) as campaign:
        with campaign.load(live):
            while len(refused) < trials and idle <= trials:
                found = _stand_still(campaign.made, min(trials - len(refused), workers // 2))
                idle += sum(count == 0 for count in found)
                refused += filter(None, found)
                say(f"{len(refused)} of {trials}: {sum(refused)} writes refused")
                campaign.settled()
        case, bad = _judged(campaign)
    if len(refused) < trials:
        bad.append(
            f"zombies: {idle} were refused nothing and only {len(refused)} of {trials} something, so little follows"
        )
    line = {
        "trials": len(refused),
        "trials_without_refusal": idle,
        "stale_writes_accepted": len(judge.stale_writes_accepted(case)),
        "stale_writes_refused": sum(refused),
        "runs": len(case.accepted),
        "lost": len(judge.lost(case)),
        "reexecuted": len(judge.reexecuted(case)),
    }
    return line, bad


def _stand_still(made: Installation, at_once: int) -> list[int]:
    """How many writes each of so many workers was refused after it woke. Only those are stopped that have something to lose."""
    stopped = [(slot, slot.pid) for slot in made.slots if slot.pid and made.owns(slot)][:at_once]
    for slot, _ in stopped:
        slot.signal(signal.SIGSTOP)
    time.sleep(PAUSE_S)
    woken = now_us()
    for slot, _ in stopped:
        slot.signal(signal.SIGCONT)
    _until(lambda: all(_refused(made, woken)[pid] for _, pid in stopped), AWAKE_S)
    counts = _refused(made, woken)
    return [counts[pid] for _, pid in stopped]


def _refused(made: Installation, since: int) -> Counter[int]:
    """Writes that were refused as another worker's since an instant, by process."""
    return Counter(said["pid"] for said in made.said(REFUSED) if said["at"] >= since)


# -- takeover --------------------------------------------------------------------------------------------------------


def takeover(kills: int, workers: int, say: Say, live: int = 0) -> Found:
    """One worker after the other is killed while it owns runs: the time from its death to the next owner of each of them."""
    with _put_up(Plan("postgresql", "redis", workers)) as campaign:
        made = campaign.made
        with campaign.load(live):
            while len(made.kills) < kills:
                _kill_one(made, len(made.kills))
                campaign.settled()
                say(f"{len(made.kills)} of {kills}")
        case, bad = _judged(campaign)
    took = sorted(judge.takeovers_s(case))
    line = {
        "kills": len(case.kills),
        "runs_taken_over": len(took),
        "takeover_p50_s": _percentile(took, 0.5),
        "takeover_p99_s": _percentile(took, 0.99),
        "takeover_max_s": _percentile(took, 1.0),
        "lost": len(judge.lost(case)),
        "reexecuted": len(judge.reexecuted(case)),
    }
    return line, bad


def _kill_one(made: Installation, turn: int) -> None:
    """Kills the next worker that has a call out: a run without one is taken over in silence."""
    before, start = len(made.kills), turn % len(made.slots)
    slots: Sequence[Slot] = made.slots[start:] + made.slots[:start]
    found: list[Slot] = []

    def waits() -> bool:
        found[:] = [slot for slot in slots if _calls_out(made, slot)][:1]
        return bool(found)

    if _until(waits, CALM_S):
        made.kill(found[0])
        _until(lambda: len(made.kills) > before, CALM_S)


def _calls_out(made: Installation, slot: Slot) -> int:
    """Calls of the runs that a slot's worker owns that were issued and have no result."""
    owned = made.rows.owned_by(slot.pid) if slot.pid else []
    journals = {run: facts for run, facts in made.rows.read_facts().items() if run in owned}
    return judge.calls_out(Case(ledger=(), journals=journals), now_us())


def _percentile(values: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile of sorted values, rounded; None: there are none."""
    return round(values[max(0, ceil(share * len(values)) - 1)], 2) if values else None


# -- deploy ----------------------------------------------------------------------------------------------------------


def deploy(runs: int, delay_s: float, workers: int, say: Say, before: Path | None = None) -> Found:
    """Every worker is stopped with SIGTERM and started again, one after the other, while ``runs`` runs wait for answers of about ``delay_s`` seconds.

    ``before``: a checkout of an earlier version. Its workers begin; each that takes the place of one is of this version. The first of these is restarted too,
    so that workers of before get runs on which this version has written.
    """
    at: list[int] = []
    plan = Plan("postgresql", "redis", workers, answer_s=(0.8 * delay_s, 1.2 * delay_s), before=before)
    with _put_up(plan) as campaign:
        made = campaign.made
        with campaign.load(runs, ("load-",)):
            # Each worker is up, and as many calls are out as there are runs.
            _until(lambda: len(made.ledger()) >= runs and all(map(made.owns, made.slots)), 60.0 + runs)
            if before is not None:
                assert all(_runs_in(slot, before) for slot in made.slots), "a worker is not of the version before"
                since = now_us()
                made.upgrade()
                say(f"the tables were brought up to date in {(now_us() - since) / 1e6:.1f} s")
            for slot in made.slots if before is None else [made.slots[0], *made.slots]:
                at.append(now_us())
                made.restart(slot)
                campaign.settled()
                say(f"{slot.name} was restarted in {(now_us() - at[-1]) / 1e6:.1f} s")
        replaced = sum(_runs_in(slot, ROOT) for slot in made.slots)
        case, bad = _judged(campaign)
    if replaced < workers:
        bad.append(f"deploy: {replaced} of {workers} workers are of this version at the end")
    out = [judge.calls_out(case, instant) for instant in at]
    repeated = sum(entry.kind == "model" and entry.attempt > 1 for entry in case.ledger)
    if repeated >= 0.01 * sum(out):
        bad.append(f"deploy: {repeated} calls were made again, with {sum(out)} out; less than 1 % may be")
    line = {
        "restarts": len(at),
        "calls_out": out,
        "repeated": repeated,
        "runs": len(case.accepted),
        "lost": len(judge.lost(case)),
        "reexecuted": len(judge.reexecuted(case)),
        "stale_writes_accepted": len(judge.stale_writes_accepted(case)),
    }
    return line, bad


def _runs_in(slot: Slot, folder: Path) -> bool:
    """Returns whether a slot's worker runs the checkout in a folder."""
    return slot.pid > 0 and Path(f"/proc/{slot.pid}/cwd").resolve() == folder.resolve()


# -- outage ----------------------------------------------------------------------------------------------------------

AFTER = 8
"""Runs that are started when the broker is back."""
SEEN: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "started": lambda fact: fact["kind"] == "run_started",
    "completed": lambda fact: fact["kind"] == "run_ended" and fact["state"] == "completed",
    "cancelled": lambda fact: fact["kind"] == "cancel_accepted",
    "decided": lambda fact: fact["kind"] == "review_decided",
}
"""What must go on without a broker."""


def outage(away_s: float, workers: int, broker: str, say: Say, live: int = 0) -> Found:
    """The broker is away while runs are started, cancelled and decided about: all of it goes on, and arrives once."""
    with _put_up(Plan("postgresql", broker, workers)) as campaign:
        made = campaign.made
        assert made.broker is not None
        made.broker.stop()
        since = now_us()
        with campaign.load(live, (*ENDS, ASKS)):
            back_at = time.monotonic() + away_s
            # One that is short waits until there is something to judge.
            while (now := time.monotonic()) < back_at or (
                now < back_at + CALM_S and not all(_seen(made.rows.read_facts(), since).values())
            ):
                time.sleep(0.3)
                campaign.answer()
        until = now_us()
        say(f"{len(made.runs)} runs were started without a broker")
        made.broker.start()
        for number in range(AFTER):
            made.start(f"after-{number}")
        case, bad = _judged(campaign)
    seen = _seen(case.journals, since, until)
    twice = judge.not_once(case)
    bad += [f"not once: {sentence}" for sentence in twice]
    bad += [f"outage: none was {name} while the broker was away" for name, count in seen.items() if not count]
    line = {
        "away_s": round((until - since) / 1e6, 1),
        **seen,
        "not_once": len(twice),
        "runs": len(case.accepted),
        "lost": len(judge.lost(case)),
        "reexecuted": len(judge.reexecuted(case)),
    }
    return line, bad


def _seen(journals: Mapping[str, Sequence[Mapping[str, Any]]], since: float, until: float = inf) -> dict[str, int]:
    facts = [fact for facts in journals.values() for fact in facts if since <= fact["at"] <= until]
    return {name: sum(map(is_one, facts)) for name, is_one in SEEN.items()}


PARTS: Mapping[str, Callable[[Mapping[str, Any], Say], Found]] = {
    "zombies": lambda given, say: zombies(given["trials"], given["workers"] or 8, say, given.get("live", 0)),
    "takeover": lambda given, say: takeover(given["kills"] or 50, given["workers"] or 4, say, given.get("live", 0)),
    "deploy": lambda given, say: deploy(given["runs"], given["delay"], given["workers"] or 4, say, given.get("before")),
    "outage": lambda given, say: outage(
        given["away"], given["workers"] or 4, given["broker"] or "redis", say, given.get("live", 0)
    ),
}
"""By the word that the command takes, with its options; and with ``live``, how many runs are kept up, where that is not as many as usual."""
