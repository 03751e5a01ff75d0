"""Drills cells live in the installation itself: its own workers, broker, database and clock.

1. Failures come from the drills' provider (``live/provider.py``), which answers in place of all models of a copied
   fabric.
2. A drill has a fabric of its own in the workspace of drills, in two revisions that differ only in the options of that
   provider. Everything else is the original's: prices stay, so that a run's meter counts as usual.
3. Each drill's endpoints have names of their own, so that its effects on shared state (circuit breakers, retry tokens,
   a Retry-After) meet no other run.
4. One run is undisturbed, one meets the failure, all effects are reverted, and one more run is undisturbed.
5. The driving code only reads rows: if it is killed, the next conductor ends its runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal

from fabric.composition import engine as wiring
from fabric.core.events.envelope import Event, fact_json, read_row
from fabric.core.schema.topology import Tiers
from fabric.core.spec.endpoints import endpoint_name
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.spec.price import ModelPrice
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON, MICROS
from fabric.core.values.words import count, dollars, duration
from fabric.models import Run
from fabric.services.actors import drills_workspace_ensure
from fabric.services.fabrics.revisions import drilled_publish
from fabric.services.installation import facts as here
from fabric.services.installation.facts import DRILL_PROVIDER
from fabric.services.runs.start import run_start
from simulator.drills.live.conditions import CAP_S
from simulator.drills.live.restoration import NOTHING, PutBack, acting_in, is_resting, put_back, store_report
from simulator.drills.models.tables import Drill, Status
from simulator.drills.runs.left_behind import REPORT
from simulator.drills.runs.names import start_key
from simulator.drills.runs.storage import Driven
from simulator.scenarios.baseline.equipment import equip_fabric, with_lookup
from simulator.scenarios.baseline.work import CONTENT, Work
from simulator.scenarios.play.cells import find_verdict, promised_by
from simulator.scenarios.play.verdicts import Deviation, deviate
from simulator.scenarios.promises.breakers import counts
from simulator.scenarios.promises.expectation import Chain, build_chain
from simulator.scenarios.stories.story import story_of_journals
from simulator.scenarios.strikes.places import build_places

LOOK_S = 0.1
PRIORITY = "low"
"""Priority of its runs: real runs come first."""
SETTLED_S = 1.5
"""Seconds until every worker knows that a breaker was closed. A process's view of shared rows is at most a
second old.
"""
LOOKS_UP = frozenset({FailureType.TOOL_LOOP, FailureType.NO_PROGRESS})
"""Failures that call a tool which finds nothing."""
TITLE = "An undisturbed run completes"


class Ended(Exception):
    """Ends the drill. ``why``: the cap or abort condition that was met; empty if a person stopped it."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class RestedRun:
    """A run that came to rest, by its journal."""

    run_id: str
    state: RunState
    chain: Chain
    reason: str
    cost_usd_micros: int
    """Cost by its meter: answers are scripted, so nothing is spent."""
    seconds: float


@dataclass(slots=True)
class LiveDrill:
    """A running live drill."""

    one: Drill
    quiet: FabricSpec
    """The drilled fabric without disturbance."""
    struck: FabricSpec
    """The drilled fabric with the failure."""
    workspace_id: str
    began: float
    """Begin, on the monotonic clock, seconds."""
    work: Work = field(default_factory=Work)
    abort: Callable[[int, float], str] = lambda cost, seconds: ""
    """Returns why the disturbed run is to be stopped at a cost (micro-dollars) and age (seconds). Empty if it may go
    on.
    """
    runs: dict[str, str] = field(default_factory=dict)
    """Ids of its runs by part: ``before``, ``during``, ``after``."""

    def run(self, part: str) -> RestedRun:
        """Start the run of a part, and wait until it rests. Raises Ended, and Refused if it cannot start."""
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
        while not is_resting(str((row := self._row(part))["state"])):
            self.look()
            if part == "during" and (why := self.abort(int(row["cost_usd_micros"]), time.monotonic() - began)):
                raise Ended(why)
            time.sleep(LOOK_S)
        return self._ran(part)

    def _ran(self, part: str) -> RestedRun:
        row = self._row(part)
        state, events = RunState(row["state"]), list_journal(self.runs[part])
        chain = build_chain(((event.fact.kind, fact_json(event)) for event in events), state)
        took = (events[-1].at - events[0].at) / 1e6
        return RestedRun(self.runs[part], state, chain, str(row["reason"]), int(row["cost_usd_micros"]), round(took, 3))

    def look(self) -> None:
        """Check that the drill may go on. Raises Ended."""
        if not self.is_running():
            raise Ended
        took = time.monotonic() - self.began
        if took > (cap_s := self.one.cap_s or CAP_S):
            raise Ended(f"it has taken {took:.0f} s, and stops at {cap_s} s")
        cost = sum(Run.objects.filter(id__in=self.runs.values()).values_list("cost_usd_micros", flat=True))
        cap = self.one.cap_usd_micros
        if cap is not None and cost > cap:
            raise Ended(f"its runs have cost ${cost / 1e6:.4f} by their meters, and it stops at ${cap / 1e6:.4f}")

    def is_running(self) -> bool:
        """Return True unless it was stopped."""
        return Drill.objects.filter(id=self.one.id, status=Status.RUNNING).exists()

    def story(self) -> dict[str, JSON]:
        """Return the story of its runs, by their journals."""
        before, during = (list_journal(self.runs[part]) if part in self.runs else [] for part in ("before", "during"))
        return story_of_journals(before, during, self.quiet.policy.budget.run_usd_micros)

    def put_back(self) -> PutBack:
        """Revert its effects. A stopped drill's report is stored at once: its process may be killed at any moment."""
        back = put_back(self.workspace_id, self.one.id)
        if not self.is_running():
            store_report(self.one.id, back)
        return back

    def settle(self, back: PutBack) -> None:
        """Wait until every worker knows about closed breakers."""
        if back.closed:
            time.sleep(SETTLED_S)

    def _row(self, part: str) -> Mapping[str, JSON]:
        return Run.objects.values("state", "reason", "cost_usd_micros").get(id=self.runs[part])

    def _tell(self) -> None:
        """Store the ids of its runs while it goes on."""
        row = Drill.objects.filter(id=self.one.id, status=Status.RUNNING)
        row.update(run_id=self.runs.get("during", ""), body=json.dumps({"runs": self.runs}))


def list_journal(run_id: str) -> list[Event]:
    """Return a run's journal."""
    rows = wiring.store().journal(run_id)
    return [event for row in rows for event in read_row(row.seq, row.kind, row.version, row.header)]


def build_place(one: Drill, spec: FabricSpec, told: Mapping[str, JSON]) -> LiveDrill:
    """Return the drill of an equipped fabric. ``told``: options of the provider for the failure."""
    return LiveDrill(
        one=one,
        quiet=adapt_fabric(spec, one.id, {}),
        struck=adapt_fabric(spec, one.id, told),
        workspace_id=drills_workspace_ensure(one.workspace_id),
        began=time.monotonic(),
    )


def make_failing(spec: FabricSpec, failure: FailureType) -> tuple[FabricSpec, dict[str, JSON]]:
    """Return the fabric for the drill of a cell, and the options of its models that cause the failure."""
    met = with_lookup(spec) if failure in LOOKS_UP else spec
    return met, {"failure": str(failure), "places": asdict(build_places(met))}


def is_alone(spec: FabricSpec) -> bool:
    """Return True if no other run uses the breakers and retry tokens on which its promise depends.

    1. No other drill does: the rows of breakers and retry buckets are a fabric's or an endpoint's, and both are a
       drill's own (``seam``).
    2. The undisturbed run before is of this drill. It leaves full buckets full, and counts of failures unchanged. But
       a breaker on the share of failed calls counts its answers too.
    """
    return not any(counts(one) and signal.mode == "rate" for one in spec.policy.breakers for signal in one.signals)


def live_cell(one: Drill, spec: FabricSpec) -> Driven:
    """Drill a cell live. The result is aborted, without a verdict, if it met a cap."""
    failure, tier = FailureType(one.failure), Tier(one.tier)
    met, lacked = equip_fabric(spec, failure)
    promised, unknown = promised_by(met, failure, tier, "waited_for", alone=is_alone(met))
    place = build_place(one, *make_failing(met, failure))
    came = LiveResult(body={"equipped": [lacked] if lacked else [], "steady": {"title": TITLE}, "runs": place.runs})
    came.expected = str(promised) if promised is not None else "not known"
    try:
        _drill(place, came, promised, unknown)
    except Ended as ended:
        came.abort(ended.why)
    finally:
        last = place.put_back()
    came.put_back(last)
    came.body["story"] = place.story()
    return came.build_columns()


def _drill(place: LiveDrill, came: LiveResult, promised: Chain | None, unknown: str) -> None:
    """Drive the three runs. Raises Ended."""
    if why_not := came.steady("before", place.run("before"), decided=0):
        came.fail(f"undisturbed, with scripted agents, the run does not simply complete: {why_not}")
        return
    during = place.run("during")
    came.steady("during", during)
    undecided = "" if during.chain.links else "no protection met the failure: no decision was made"
    came.judge(find_verdict(during.chain, promised), str(during.chain), unknown or undecided)
    back = place.put_back()
    came.put_back(back)
    if not back.done:
        return
    place.settle(back)
    if (why_not := came.steady("after", place.run("after"))) and came.verdict == "pass":
        verdict, why = deviate(Deviation.STEADY, why_not)
        came.judge(verdict, str(during.chain), why)


def _probe(probe: str, output: JSON, said: str, why_not: str = "") -> dict[str, JSON]:
    return {"probe": probe, "output": output, "said": said, "why_not": why_not}


@dataclass(slots=True)
class LiveResult:
    """Results of a live drill so far."""

    body: dict[str, JSON]
    status: Status = Status.COMPLETED
    verdict: str = ""
    expected: str = ""
    observed: str = ""
    why: str = ""

    def steady(self, part: str, ran: RestedRun, *, decided: int | None = None) -> str:
        """Record the results of a run. Return why it is no steady state; empty if it is one, or need not be.

        ``decided``: required number of decisions; None for any.
        """
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
        """Record the verdict about the disturbed run."""
        self.verdict, self.observed, self.why = verdict, observed, why

    def fail(self, why: str) -> None:
        """Record a failure, which proves nothing about the cell."""
        self.status, self.verdict, self.why = Status.FAILED, "error", why
        self.observed = self.observed or "not drilled"

    def abort(self, why: str) -> None:
        """Record a met cap or abort condition: there is no verdict, even after a decision."""
        self.status, self.verdict, self.why = Status.ABORTED, "", why
        self.body["aborted"] = why

    def put_back(self, back: PutBack) -> None:
        """Add a report about reverted effects."""
        before = self.body.get(REPORT, {"done": True, "said": ""})
        said = back.said if back.said != NOTHING or not before["said"] else ""
        parts = dict.fromkeys(filter(None, (before["said"], said)))
        self.body[REPORT] = {"done": before["done"] and back.done, "said": "; ".join(parts)}

    def build_columns(self) -> Driven:
        """Return the columns of its row. Effects that could not be reverted are an error, even after a passed run."""
        rollback = self.body[REPORT]
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


PROVIDER = DRILL_PROVIDER
NAME_CHARS, MARK_CHARS = 40, 12


def adapt_fabric(spec: FabricSpec, drill_id: str, told: Mapping[str, JSON]) -> FabricSpec:
    """Return the fabric under the drill's name, for any tier.

    ``told``: options of its models, besides those that make the scripted agents agree.
    """
    mark = drill_id[-MARK_CHARS:]
    endpoints = {name: f"{n}-{mark}.drill.invalid" for n, name in enumerate(sorted(map(endpoint_name, spec.models)))}
    models = tuple(_model(model, endpoints[endpoint_name(model)], told) for model in spec.models)
    renamed = {name: f"{PROVIDER}@{host}" for name, host in endpoints.items()}
    breakers = tuple(
        one.model_copy(update={"only": tuple(renamed[name] for name in one.only)})
        if one.scope is BreakerScope.PROVIDER
        else one
        for one in spec.policy.breakers
    )
    fields = {
        "name": f"{spec.name[:NAME_CHARS]}-drill-{mark}",
        "models": models,
        "tiers": spec.tiers.model_copy(update={"allowed": Tiers().allowed}),
        "policy": spec.policy.model_copy(update={"breakers": breakers}),
    }
    return FabricSpec.model_validate_json(spec.model_copy(update=fields).model_dump_json(by_alias=True))


def _model(model: ModelSpec, host: str, told: Mapping[str, JSON]) -> ModelSpec:
    own = {
        "provider": PROVIDER,
        "base_url": f"https://{host}",
        "price": _price(model),
        "options": {**CONTENT, **told, "instead_of": model.provider},
    }
    return model.model_copy(update=own)


def _price(model: ModelSpec) -> ModelPrice | None:
    """Return the model's price, written out, because no list has the drills' provider. None: unknown; calls are
    refused.
    """
    if model.price is not None:
        return model.price
    found = here.installation().price(model)
    if found is None:
        return None
    kinds = {name.replace("_usd_micros_", "_usd_"): micros for name, micros in asdict(found).items()}
    return ModelPrice(
        **{name: None if micros is None else format(Decimal(micros) / MICROS, "f") for name, micros in kinds.items()}
    )
