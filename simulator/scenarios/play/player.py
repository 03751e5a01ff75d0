"""Plays and judges a scenario in simulated time, and collects its results for the probes.

It is judged by its decisions against the fabric's table, its strikes, its expectations, and the steady state
afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from fabric.auditor import Derived, derive_all
from fabric.core.events.envelope import Event, from_row, list_events
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.core.values.words import words
from fabric.runtime.ports.calls import ToolRequest
from fabric.runtime.ports.journal import Document
from simulator.cast.agents import Reply
from simulator.faults.catalogue import FaultRefused
from simulator.faults.fault import Port
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.baseline.equipment import equip_fabric
from simulator.scenarios.baseline.work import (
    STARTS_S,
    Ask,
    Disturbing,
    Serve,
    Work,
    first_run,
    observe_chain,
    run_after,
    until_put_back,
)
from simulator.scenarios.play.handovers import is_about, judge_promise, promise_handovers
from simulator.scenarios.play.verdicts import Deviation, Verdict, deviate
from simulator.scenarios.spec.journal import Journal, build_journal
from simulator.scenarios.spec.probes import CheckedProbe, Observed
from simulator.scenarios.spec.recorded import list_causes
from simulator.scenarios.spec.scenario import Disturbance, Scalar, Scenario
from simulator.scenarios.strikes import needs as meeting
from simulator.scenarios.strikes.failures import asks_for_nothing, find_nothing
from simulator.scenarios.strikes.injection import Injection
from simulator.swarm.setups import AS_DRAWN, DOCUMENTS, WorldNames
from simulator.world.world import World

AROUND: frozenset[Port] = frozenset({"store", "broker", "worker", "clock"})
"""Ports at which a run makes no request."""


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """A decision: the table's reaction to its failure, and the observed one."""

    seq: int
    expected: str
    observed: str

    @property
    def same(self) -> bool:
        """Return True if they are equal."""
        return self.expected == self.observed


def judge_played(
    scenario: Scenario,
    *,
    struck: Mapping[str, int],
    lines: Sequence[DecisionLine],
    during: Observed,
    usual: str,
    after: Sequence[CheckedProbe],
    handed: tuple[Verdict, str] | None = None,
) -> tuple[Verdict, str]:
    """Return the verdict about a scenario that was played to its end, and its reason unless it passes.

    ``usual``: the end of the undisturbed run. ``handed``: whether a circle of handovers ended as the fabric's limits
    promise; those then decide which row it enters.
    """
    if not any(struck.values()):
        return "unknown", "nothing was struck: the run made no such call"
    failure = scenario.failure if handed is None else None
    if failure is not None and not lines:
        return "unknown", "no protection met the failure: no decision was made"
    if wrong := [line for line in lines if not line.same]:
        told = f"event {wrong[0].seq}: {wrong[0].observed}, where the table has {wrong[0].expected}"
        return deviate(Deviation.DECISION, told)
    if handed is not None and handed[0] != "pass":
        return handed
    if scenario.failure is None and not lines and not scenario.expect and during.state != usual:
        return deviate(Deviation.END, f"it ended {during.state}, where it ends {usual} undisturbed")
    if lines and not _may_decide(scenario):
        return deviate(Deviation.DECIDED, f"what strikes around a run is no failure of it; observed: {during.chain}")
    if failure is not None and not lines[0].observed.startswith(f"{failure}: "):
        met = words(lines[0].observed)
        return deviate(Deviation.ROW, f"it names {words(failure)}, and the first decision was {met}")
    if scenario.expect and (why := not_held(scenario.check_disturbed(during))):
        return deviate(Deviation.EXPECTATION, why)
    if why := not_held(after):
        return deviate(Deviation.STEADY, why)
    return "pass", ""


def _may_decide(scenario: Scenario) -> bool:
    """Return True if it strikes a run's requests. Faults of workers, database, broker and clocks are no failure of
    the run.
    """
    return bool(scenario.recorded) or any(one.fault.port not in AROUND for one in scenario.disturbances())


def not_held(checked: Sequence[CheckedProbe]) -> str:
    """Return the probes outside tolerance; empty for none."""
    return "; ".join(f"{one.probe}: {one.why_not}" for one in checked if not one.met)


def list_lines(events: Sequence[Event], tier: Tier, compiled: CompiledFabric) -> tuple[DecisionLine, ...]:
    """Return each decision of a journal, derived from the journal and the fabric's table alone."""
    found = derive_all(events, tier, lambda topology, version, policy: compiled.select_topology(topology))
    return tuple(_line(one) for one in found)


def _line(one: Derived) -> DecisionLine:
    seen = f"{one.fact.failure_type or 'direct'}: {one.fact.reaction}"
    if one.verdict == "equal":
        return DecisionLine(one.seq, seen, seen)
    derived = ", ".join(f"{each.field} {each.derived}" for each in one.differences) or "another table"
    return DecisionLine(one.seq, derived, seen)


# -- observation ------------------------------------------------------------------------------------------------------


def observe(world: World, injection: Injection, run: Run | None = None) -> Observed:
    """Return the results of a finished world's run, with the number of strikes. ``run``: by default the first."""
    run = run or first_run(world)
    chain = observe_chain(world, run)
    rows = world.store.rows(run.id)
    answer, citations = _answer(world, run)
    return Observed(
        state=str(run.state),
        chain=str(chain),
        cost_usd_micros=world.store.columns(run.id).cost_usd_micros,
        duration_s=((run.ended_at or world.clock.now()) - run.started_at) / US,
        model_calls=injection.calls["model"],
        tool_calls=injection.calls["tool"],
        causes=list_causes(list_events(rows)),
        reviews=chain.asked,
        replans=sum(row.kind == "replanned" for row in rows),
        answer=answer,
        citations=citations,
        violations=len(world.watch.violations),
        struck=sum(injection.struck.values()),
    )


def _answer(world: World, run: Run) -> tuple[str, list[str]]:
    """Return the text of the answer and its citations; empty without an answer."""
    for row in world.store.rows(run.id) if run.outcome_ref else ():
        if row.payload is None or from_row(row.seq, row.kind, row.version, row.header).content_ref != run.outcome_ref:
            continue
        said = json.loads(row.payload)
        output = said.get("output", said)
        return str(output.get("text", "")), list(output.get("citations", ()))
    return "", []


# -- player ----------------------------------------------------------------------------------------------------------

PROCESSES = 2
"""Number of workers: if one dies or pauses, another takes over."""


@dataclass(frozen=True, slots=True)
class Played:
    """Result of a scenario in one tier."""

    scenario: Scenario
    tier: Tier
    seed: int
    verdict: Verdict
    why: str
    """Reason of the verdict; empty for a pass."""
    before: tuple[CheckedProbe, ...]
    lines: tuple[DecisionLine, ...]
    after: tuple[CheckedProbe, ...]
    during: Observed | None
    """Results of the disturbed run; None if there was none."""
    struck: Mapping[str, int]
    equipped: str
    """Parts added to the fabric so that the scenario can strike; empty for none."""
    start: datetime
    end: datetime
    aborted: bool = False
    """True if it met one of its own abort conditions."""

    @property
    def expected_decisions(self) -> str:
        """Return the decisions that the table has for the failures."""
        return " > ".join(line.expected for line in self.lines) or "no decision"

    @property
    def observed_chain(self) -> str:
        """Return the chain of the disturbed run."""
        return self.during.chain if self.during is not None else "not drilled"

    def journal(self) -> Journal:
        """Return its record, as chaostoolkit writes it."""
        ended: Literal["aborted"] | None = "aborted" if self.aborted or self.verdict == "error" else None
        after, struck = (None, None) if self.during is None else (self.after or None, self.struck)
        return build_journal(
            self.scenario, start=self.start, end=self.end, before=self.before, after=after, struck=struck, ended=ended
        )


@dataclass(frozen=True, slots=True)
class PlayedScenario:
    """A played scenario, with its worlds."""

    played: Played
    spec: FabricSpec
    """The fabric as it was drilled: with scripted models and added parts."""
    before: World
    """The undisturbed world."""
    world: World | None
    """The disturbed world, with the run after; None if the undisturbed run failed."""


def play(
    spec: FabricSpec,
    scenario: Scenario,
    tier: Tier,
    *,
    seed: int | None = None,
    overrides: Mapping[str, Scalar] | None = None,
) -> Played:
    """Play the scenario in a fabric. ``seed``: by default the scenario's own.

    Raises Refused for unfit parameters, and for agents or tools that the fabric lacks.
    """
    return play_told(spec, scenario, tier, seed=seed, overrides=overrides).played


def play_told(
    spec: FabricSpec,
    scenario: Scenario,
    tier: Tier,
    *,
    seed: int | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    names: WorldNames = AS_DRAWN,
) -> PlayedScenario:
    """Play the scenario, and return its worlds too. ``names``: names of their runs, if they are to be kept."""
    start, seed = datetime.now(UTC), scenario.seed if seed is None else seed
    ready = prepare_scenario(spec, scenario, overrides)
    injection, quiet, work = ready.injection, Injection((), ready.spec), ready.work
    steady = baseline.drive(
        ready.spec, tier, seed=seed, disturbed=quiet.disturb, work=work, names=names.select_part("before")
    )
    before = scenario.steady_state.check(observe(steady, quiet))

    def end_play(verdict: Verdict, why: str, world: World | None = None, *, aborted: bool = False) -> Played:
        during = observe(world, injection) if world is not None else None
        lines = _lines(world, ready.spec) if world is not None else ()
        after = _check_after(scenario, world, injection) if world is not None and not _find_violation(world) else ()
        end, struck, lacked = datetime.now(UTC), dict(injection.struck), ready.lacked
        return Played(
            scenario, tier, seed, verdict, why, before, lines, after, during, struck, lacked, start, end, aborted
        )

    def end_scenario(one: Played, world: World | None = None) -> PlayedScenario:
        return PlayedScenario(one, ready.spec, steady, world)

    if why := _find_violation(steady) or not_held(before):
        return end_scenario(end_play("error", f"the steady state does not hold before anything is disturbed: {why}"))
    again = Work(work.text, work.documents, work.processes, STARTS_S)
    disturbed = until_put_back(_finding_nothing(injection))
    world = baseline.drive(
        ready.spec, tier, seed=seed, disturbed=disturbed, work=again, names=names.select_part("during")
    )
    if why := _find_violation(world):
        return end_scenario(end_play("error", why, world), world)
    during = observe(world, injection)
    if why := scenario.abort.explain_abort(during.cost_usd_micros, during.duration_s):
        return end_scenario(end_play("error", f"aborted: {why}", world, aborted=True), world)
    promise = promise_handovers(ready.spec, injection.disturbances)
    handed = None if promise is None else judge_promise(promise, _events(world))
    verdict, why = _judge_played_scenario(end_play("pass", "", world), steady, handed)
    return end_scenario(end_play(verdict, why, world), world)


# -- the work --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scenario that is ready for a fabric: its disturbances, and its work."""

    spec: FabricSpec
    """The fabric with scripted models and added parts."""
    lacked: str
    """The added parts in words; empty for none."""
    injection: Injection
    work: Work


def prepare_scenario(spec: FabricSpec, scenario: Scenario, overrides: Mapping[str, Scalar] | None = None) -> Prepared:
    """Prepare a scenario for a fabric.

    Raises Refused for unfit parameters, and for agents or tools that the fabric lacks.
    """
    disturbances = scenario.disturbances(overrides)
    met, lacked = equipped_for(baseline.scripted_models(spec), scenario, disturbances)
    injection = Injection(disturbances, met, scenario.recorded)
    if absent := injection.absent():
        raise FaultRefused(absent)
    return Prepared(met, lacked, injection, build_work(scenario))


def build_work(scenario: Scenario) -> Work:
    """Return the input of its runs, and the number of workers."""
    given = scenario.workload
    documents = tuple(Document(one.name, one.text, one.origin) for one in given.documents) or DOCUMENTS
    return Work(given.request, documents, PROCESSES)


def equipped_for(spec: FabricSpec, scenario: Scenario, disturbances: tuple[Disturbance, ...]) -> tuple[FabricSpec, str]:
    """Return the fabric with the parts that the failure and the disturbances need."""
    lacked = []
    if scenario.recorded:
        return spec, ""  # Its own fabric has what the run met; a further part would change the calls.
    if scenario.failure is not None and not is_about(disturbances):
        spec, said = equip_fabric(spec, scenario.failure)
        lacked.append(said)
    spec, said = meeting.equip_fabric(spec, disturbances)
    return spec, " and ".join(dict.fromkeys(filter(None, (*lacked, said))))


def _finding_nothing(injection: Injection) -> Disturbing:
    """Return the injection with tools that find nothing for a failing agent's queries."""

    def disturb(world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        asked, served = injection.disturb(world, ask, serve)

        def search(request: ToolRequest) -> Reply:
            return find_nothing(request) if asks_for_nothing(request) else served(request)

        return asked, search

    return disturb


# -- the verdict -----------------------------------------------------------------------------------------------------


def _find_violation(world: World) -> str:
    """Return the invariant that was violated first; empty for none."""
    broken = world.watch.violations[:1]
    return "".join(f"{one.invariant}: {one.sentence}" for one in broken)


def _judge_played_scenario(played: Played, steady: World, handed: tuple[Verdict, str] | None) -> tuple[Verdict, str]:
    """Return the verdict about a scenario that was played to its end."""
    assert played.during is not None
    return judge_played(
        played.scenario,
        struck=played.struck,
        lines=played.lines,
        during=played.during,
        usual=str(first_run(steady).state),
        after=played.after,
        handed=handed,
    )


def _check_after(scenario: Scenario, world: World, injection: Injection) -> tuple[CheckedProbe, ...]:
    """Check the steady state of the run after the disturbance."""
    return scenario.steady_state.check(observe(world, injection, run_after(world)))


def _lines(world: World, spec: FabricSpec) -> tuple[DecisionLine, ...]:
    """Return each decision of the disturbed run, derived from its journal and the fabric's table alone."""
    return list_lines(_events(world), first_run(world).tier, baseline.compile_published(spec).compiled)


def _events(world: World) -> list[Event]:
    return list_events(world.store.rows(first_run(world).id))
