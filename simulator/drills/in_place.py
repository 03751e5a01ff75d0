"""Live drills in the installation itself: its own workers, broker, database and clock; the failures come from the drills' provider (``seam``).

A drill has a fabric of its own in the workspace of drills, in two revisions that differ in nothing but what that provider is told. One run goes undisturbed, one meets
the failure, everything is put back, and one more goes undisturbed. What drives it only looks at rows: kill it, and the next conductor ends what it left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fabric import wiring
from fabric.core.envelope import Event, fact_json, from_row
from fabric.core.flow import RunState
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.words import count, dollars, duration
from fabric.models import Run
from fabric.services.fabrics import drilled_publish
from fabric.services.runs import run_start
from fabric.services.workspaces import drills_workspace_ensure
from simulator.drills.baseline import Work
from simulator.drills.cells import promised_by, verdict_of
from simulator.drills.driven import Driven
from simulator.drills.equipping import equipped, with_lookup
from simulator.drills.expectation import Chain, chain_of
from simulator.drills.live_asking import CAP_S
from simulator.drills.models import Drill, Status
from simulator.drills.names import start_key
from simulator.drills.putting_back import NOTHING, PutBack, acting_in, put_back, resting, tell
from simulator.drills.seam import in_the_drills_hands
from simulator.drills.shields import counts
from simulator.drills.story import story_of_journals
from simulator.drills.sustained import places

JSON = Any
LOOK_S = 0.1
PRIORITY = "low"
"""Of its runs: what is real comes first."""
SETTLED_S = 1.5
"""After this every worker has heard that a breaker was closed: what a process knows of shared rows is a second old at most."""
LOOKS_UP = frozenset({FailureType.TOOL_LOOP, FailureType.NO_PROGRESS})
"""Failures that call a tool which finds nothing."""
TITLE = "An undisturbed run completes"


class Ended(Exception):
    """The drill is not to go on. ``why``: the cap or the abort condition that it met; empty: somebody stopped it."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that came to rest, as its journal tells it."""

    run_id: str
    state: RunState
    chain: Chain
    reason: str
    cost_usd_micros: int
    """By its meter: answers are scripted, and nothing is spent."""
    seconds: float


@dataclass(slots=True)
class Place:
    """One live drill under way."""

    one: Drill
    quiet: FabricSpec
    """The drilled fabric where nothing disturbs it..."""
    struck: FabricSpec
    """...and the same where the failure strikes."""
    workspace_id: str
    began: float
    """When it began, on the monotonic clock, seconds."""
    work: Work = field(default_factory=Work)
    abort: Callable[[int, float], str] = lambda cost, seconds: ""
    """Why the disturbed run is to be stopped that has cost so many micro-dollars and taken so many seconds; empty: it may go on."""
    runs: dict[str, str] = field(default_factory=dict)
    """Ids by part: ``before``, ``during``, ``after``."""

    def run(self, part: str) -> Ran:
        """Starts the run of a part, and waits until it rests. Raises Ended; Refused where it cannot be started."""
        actor = acting_in(self.workspace_id)
        spec = self.struck if part == "during" else self.quiet
        drilled_publish(actor=actor, spec=spec)
        started = run_start(
            store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=spec.name, text=self.work.text,
            documents=self.work.documents, tier=self.one.tier, priority=PRIORITY, start_key=start_key(self.one.id, part),
        )  # fmt: skip
        self.runs[part] = started.run_id
        self._tell()
        began = time.monotonic()
        while not resting(str((row := self._row(part))["state"])):
            self.look()
            if part == "during" and (why := self.abort(int(row["cost_usd_micros"]), time.monotonic() - began)):
                raise Ended(why)
            time.sleep(LOOK_S)
        return self._ran(part)

    def _ran(self, part: str) -> Ran:
        row = self._row(part)
        state, events = RunState(row["state"]), journal_of(self.runs[part])
        chain = chain_of(((event.fact.kind, fact_json(event)) for event in events), state)
        took = (events[-1].at - events[0].at) / 1e6
        return Ran(self.runs[part], state, chain, str(row["reason"]), int(row["cost_usd_micros"]), round(took, 3))

    def look(self) -> None:
        """Whether it may go on. Raises Ended."""
        if not self.running():
            raise Ended
        took = time.monotonic() - self.began
        if took > (cap_s := self.one.cap_s or CAP_S):
            raise Ended(f"it has taken {took:.0f} s, and stops at {cap_s} s")
        cost = sum(Run.objects.filter(id__in=self.runs.values()).values_list("cost_usd_micros", flat=True))
        cap = self.one.cap_usd_micros
        if cap is not None and cost > cap:
            raise Ended(f"its runs have cost ${cost / 1e6:.4f} by their meters, and it stops at ${cap / 1e6:.4f}")

    def running(self) -> bool:
        """Whether nobody has stopped it."""
        return Drill.objects.filter(id=self.one.id, status=Status.RUNNING).exists()

    def story(self) -> dict[str, JSON]:
        """What is drawn of its runs, by their journals."""
        before, during = (journal_of(self.runs[part]) if part in self.runs else [] for part in ("before", "during"))
        return story_of_journals(before, during, self.quiet.policy.budget.run_usd_micros)

    def put_back(self) -> PutBack:
        """Puts back what it has done."""
        return put_back(self.workspace_id, self.one.id)

    def settle(self, back: PutBack) -> None:
        """Waits until every worker has heard of what was closed."""
        if back.closed:
            time.sleep(SETTLED_S)

    def _row(self, part: str) -> Mapping[str, JSON]:
        return Run.objects.values("state", "reason", "cost_usd_micros").get(id=self.runs[part])

    def _tell(self) -> None:
        """Which runs it has, while it goes on."""
        row = Drill.objects.filter(id=self.one.id, status=Status.RUNNING)
        row.update(run_id=self.runs.get("during", ""), body=json.dumps({"runs": self.runs}))


def journal_of(run_id: str) -> list[Event]:
    """What a run has journaled."""
    rows = wiring.store().journal(run_id)
    return [from_row(row.seq, row.kind, row.version, row.header) for row in rows]


def place_of(one: Drill, spec: FabricSpec, told: Mapping[str, JSON]) -> Place:
    """The drill of a fabric that has whoever meets its failure. ``told``: what the provider is told while it strikes."""
    return Place(
        one=one,
        quiet=in_the_drills_hands(spec, one.id, {}),
        struck=in_the_drills_hands(spec, one.id, told),
        workspace_id=drills_workspace_ensure(one.workspace_id),
        began=time.monotonic(),
    )


def failing(spec: FabricSpec, failure: FailureType) -> tuple[FabricSpec, dict[str, JSON]]:
    """The fabric that the drill of a cell runs, and what its models are told so that the failure strikes."""
    met = with_lookup(spec) if failure in LOOKS_UP else spec
    return met, {"failure": str(failure), "places": asdict(places(met))}


def is_alone(spec: FabricSpec) -> bool:
    """Whether the run that meets the failure is the only one that moves the breakers and takes the retry tokens that its promise hangs on.

    No other drill does: the rows of breakers and retry buckets are a fabric's or an endpoint's, and both are a drill's own (``seam``). The undisturbed run before is
    of the same drill. It leaves full buckets full, and a count of failures as it was; a breaker that goes by a share of the calls counts its answers too.
    """
    return not any(counts(one) and signal.mode == "rate" for one in spec.policy.breakers for signal in one.signals)


def live_cell(one: Drill, spec: FabricSpec) -> Driven:
    """A cell, live. Aborted, without a verdict, where it met a cap."""
    failure, tier = FailureType(one.failure), Tier(one.tier)
    met, lacked = equipped(spec, failure)
    promised, unknown = promised_by(met, failure, tier, "waited_for", alone=is_alone(met))
    place = place_of(one, *failing(met, failure))
    came = Came(body={"equipped": [lacked] if lacked else [], "steady": {"title": TITLE}, "runs": place.runs})
    came.expected = str(promised) if promised is not None else "not known"
    try:
        _drill(place, came, promised, unknown)
    except Ended as ended:
        came.abort(ended.why)
    finally:
        last = place.put_back()
    came.put_back(last)
    came.body["story"] = place.story()
    if not place.running():
        tell(one.id, last)  # Somebody has stopped it: nothing else is kept of it.
    return came.driven()


def _drill(place: Place, came: Came, promised: Chain | None, unknown: str) -> None:
    """The three runs. Raises Ended."""
    if why_not := came.steady("before", place.run("before"), decided=0):
        came.fail(f"undisturbed, with scripted agents, the run does not simply complete: {why_not}")
        return
    during = place.run("during")
    came.steady("during", during)
    nobody = "" if during.chain.links else "the failure was met by nobody: no decision was made"
    came.judge(verdict_of(during.chain, promised), str(during.chain), unknown or nobody)
    back = place.put_back()
    came.put_back(back)
    if not back.done:
        return
    place.settle(back)
    if (why_not := came.steady("after", place.run("after"))) and came.verdict == "pass":
        came.judge("deviated", str(during.chain), f"the steady state does not hold afterwards: {why_not}")


def _probe(probe: str, output: JSON, said: str, why_not: str = "") -> dict[str, JSON]:
    return {"probe": probe, "output": output, "said": said, "why_not": why_not}


@dataclass(slots=True)
class Came:
    """What has come of a live drill so far."""

    body: dict[str, JSON]
    status: Status = Status.COMPLETED
    verdict: str = ""
    expected: str = ""
    observed: str = ""
    why: str = ""

    def steady(self, part: str, ran: Ran, *, decided: int | None = None) -> str:
        """Keeps what a run came to. Why it is no steady state, empty: it is one, or is not asked to be. ``decided``: so many decisions, not any number."""
        state = chain = ""
        if part != "during" and ran.state is not RunState.COMPLETED:
            state = f"it is {ran.state}{f', {ran.reason}' if ran.reason else ''}"
        if decided is not None and len(ran.chain.links) != decided:
            chain = f"it decided about failures: {ran.chain}"
        self.body["steady"][part] = [
            _probe("state", str(ran.state), f"run {ran.state}", state),
            _probe("chain", str(ran.chain), f"{count(len(ran.chain.links), 'decision')} about failures", chain),
            _probe("cost_usd_micros", ran.cost_usd_micros, f"costs {dollars(ran.cost_usd_micros)} by its meter"),
            _probe("duration_s", ran.seconds, f"takes {duration(ran.seconds)}"),
        ]
        return "; ".join(filter(None, (state, chain)))

    def judge(self, verdict: str, observed: str, why: str) -> None:
        """What the disturbed run has shown."""
        self.verdict, self.observed, self.why = verdict, observed, why

    def fail(self, why: str) -> None:
        """It says nothing about the cell."""
        self.status, self.verdict, self.why = Status.FAILED, "error", why
        self.observed = self.observed or "not drilled"

    def abort(self, why: str) -> None:
        """It met a cap or an abort condition: there is no verdict, whatever it had shown by then."""
        self.status, self.verdict, self.why = Status.ABORTED, "", why
        self.body["aborted"] = why

    def put_back(self, back: PutBack) -> None:
        """What was put back, all together."""
        before = self.body.get("rollback", {"done": True, "said": ""})
        said = back.said if back.said != NOTHING or not before["said"] else ""
        parts = dict.fromkeys(filter(None, (before["said"], said)))
        self.body["rollback"] = {"done": before["done"] and back.done, "said": "; ".join(parts)}

    def driven(self) -> Driven:
        """As columns of its row. What could not be put back is an error, whatever the run has shown."""
        rollback = self.body["rollback"]
        if not rollback["done"]:
            self.why = "; ".join(filter(None, (f"not everything was put back: {rollback['said']}", self.why)))
            self.verdict = "error"
            self.status = self.status if self.status is Status.ABORTED else Status.FAILED
        return Driven(
            status=self.status,
            verdict=self.verdict,
            expected=self.expected,
            observed=self.observed,
            why=self.why,
            run_id=self.body["runs"].get("during", ""),
            body=self.body,
        )
