"""A scenario played in virtual time and judged: the steady state before, the disturbance, each decision against the fabric's own table, the steady state after.

Before: a run that nothing disturbs. Then a run is disturbed, in a world of its own. Everything that was disturbed is put back, always.
At last a run that nothing disturbs goes through the same world, with what the first has left of breakers and budgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from fabric.core.envelope import Event, from_row
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.runtime.call_ports import ToolRequest
from fabric.runtime.ports import Document
from simulator.drills import baseline
from simulator.drills.afterwards import STARTS_S, run_after, until_put_back
from simulator.drills.baseline import Ask, Disturbing, Serve, Work
from simulator.drills.cells import Verdict
from simulator.drills.equipping import equipped
from simulator.drills.observed import first
from simulator.drills.sustained import finds_nothing, nothing
from simulator.kernel.agents import Reply
from simulator.kernel.swarm import AS_DRAWN, DOCUMENTS, Names
from simulator.kernel.world import World
from simulator.scenarios import meeting
from simulator.scenarios.catalogue import Refused
from simulator.scenarios.handing import is_about, kept, promised
from simulator.scenarios.injection import Injection
from simulator.scenarios.journal import Journal, journal_of
from simulator.scenarios.judging import Line, judged, lines_of, not_held
from simulator.scenarios.observing import observe
from simulator.scenarios.probes import Checked, Observed
from simulator.scenarios.scenario import Disturbance, Scalar, Scenario

PROCESSES = 2
"""Workers: where one dies or stands still, another takes over."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario in one tier."""

    scenario: Scenario
    tier: Tier
    seed: int
    verdict: Verdict
    why: str
    """What the verdict rests on, where it is no pass; empty: it is one."""
    before: tuple[Checked, ...]
    lines: tuple[Line, ...]
    after: tuple[Checked, ...]
    during: Observed | None
    """What the disturbed run came to; None: there was none."""
    struck: Mapping[str, int]
    equipped: str
    """What the fabric was given so that the scenario can strike in it; empty: nothing."""
    start: datetime
    end: datetime
    aborted: bool = False
    """Whether it met one of its own abort conditions."""

    @property
    def expected(self) -> str:
        """The decisions that the table has for what was met."""
        return " > ".join(line.expected for line in self.lines) or "no decision"

    @property
    def observed(self) -> str:
        """The chain of the disturbed run."""
        return self.during.chain if self.during is not None else "not drilled"

    def journal(self) -> Journal:
        """Its record, as chaostoolkit writes one."""
        ended: Literal["aborted"] | None = "aborted" if self.aborted or self.verdict == "error" else None
        after, struck = (None, None) if self.during is None else (self.after or None, self.struck)
        return journal_of(
            self.scenario, start=self.start, end=self.end, before=self.before, after=after, struck=struck, ended=ended
        )


@dataclass(frozen=True, slots=True)
class Told:
    """A scenario that was played, with the worlds that it was played in."""

    played: Played
    spec: FabricSpec
    """The fabric as it was drilled: with scripted models, and with what it lacked."""
    before: World
    """The world that nothing disturbs."""
    world: World | None
    """The disturbed one, in which the run afterwards goes as well; None: the steady state before did not hold."""


def play(
    spec: FabricSpec,
    scenario: Scenario,
    tier: Tier,
    *,
    seed: int | None = None,
    overrides: Mapping[str, Scalar] | None = None,
) -> Played:
    """Plays it in a fabric. ``seed``: without it the scenario's own. Raises Refused for parameters that do not fit, and for whom the fabric has not."""
    return play_told(spec, scenario, tier, seed=seed, overrides=overrides).played


def play_told(
    spec: FabricSpec,
    scenario: Scenario,
    tier: Tier,
    *,
    seed: int | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    names: Names = AS_DRAWN,
) -> Told:
    """The same, with the worlds. ``names``: what their runs are called, where they are to be kept."""
    start, seed = datetime.now(UTC), scenario.seed if seed is None else seed
    ready = prepared(spec, scenario, overrides)
    injection, quiet, work = ready.injection, Injection((), ready.spec), ready.work
    steady = baseline.drive(
        ready.spec, tier, seed=seed, disturbed=quiet.disturbing, work=work, names=names.of("before")
    )
    before = scenario.steady_state.check(observe(steady, quiet))

    def played(verdict: Verdict, why: str, world: World | None = None, *, aborted: bool = False) -> Played:
        during = observe(world, injection) if world is not None else None
        lines = _lines(world, ready.spec) if world is not None else ()
        after = _after(scenario, world, injection) if world is not None and not _broken(world) else ()
        end, struck, lacked = datetime.now(UTC), dict(injection.struck), ready.lacked
        return Played(
            scenario, tier, seed, verdict, why, before, lines, after, during, struck, lacked, start, end, aborted
        )

    def told(one: Played, world: World | None = None) -> Told:
        return Told(one, ready.spec, steady, world)

    if why := _broken(steady) or not_held(before):
        return told(played("error", f"the steady state does not hold before anything is disturbed: {why}"))
    again = Work(work.text, work.documents, work.processes, STARTS_S)
    disturbed = until_put_back(_finding_nothing(injection))
    world = baseline.drive(ready.spec, tier, seed=seed, disturbed=disturbed, work=again, names=names.of("during"))
    if why := _broken(world):
        return told(played("error", why, world), world)
    during = observe(world, injection)
    if why := scenario.abort.reached(during.cost_usd_micros, during.duration_s):
        return told(played("error", f"aborted: {why}", world, aborted=True), world)
    promise = promised(ready.spec, injection.disturbances)
    handed = None if promise is None else kept(promise, _events(world))
    verdict, why = _judged(played("pass", "", world), steady, handed)
    return told(played(verdict, why, world), world)


# -- the work ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is disturbed, and in what work."""

    spec: FabricSpec
    """The fabric with scripted models, and with what it lacked."""
    lacked: str
    """That, in words; empty: nothing."""
    injection: Injection
    work: Work


def prepared(spec: FabricSpec, scenario: Scenario, overrides: Mapping[str, Scalar] | None = None) -> Prepared:
    """A scenario made ready for a fabric. Raises Refused for parameters that do not fit, and for whom the fabric has not."""
    disturbances = scenario.disturbances(overrides)
    met, lacked = equipped_for(baseline.scripted_models(spec), scenario, disturbances)
    injection = Injection(disturbances, met)
    if absent := injection.absent():
        raise Refused(absent)
    return Prepared(met, lacked, injection, work_of(scenario))


def work_of(scenario: Scenario) -> Work:
    """What its runs are asked, and on how many workers."""
    given = scenario.workload
    documents = tuple(Document(one.name, one.text, one.origin) for one in given.documents) or DOCUMENTS
    return Work(given.request, documents, PROCESSES)


def equipped_for(spec: FabricSpec, scenario: Scenario, disturbances: tuple[Disturbance, ...]) -> tuple[FabricSpec, str]:
    """The fabric with whoever the failure, and the disturbances, need to be met."""
    lacked = []
    if scenario.failure is not None and not is_about(disturbances):
        spec, said = equipped(spec, scenario.failure)
        lacked.append(said)
    spec, said = meeting.equipped(spec, disturbances)
    return spec, " and ".join(dict.fromkeys(filter(None, (*lacked, said))))


def _finding_nothing(injection: Injection) -> Disturbing:
    """The injection, with a world in which there is nothing on what a failing agent asks a tool."""

    def disturbing(world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        asked, served = injection.disturbing(world, ask, serve)

        def searched(request: ToolRequest) -> Reply:
            return nothing(request) if finds_nothing(request) else served(request)

        return asked, searched

    return disturbing


# -- the verdict -------------------------------------------------------------------------------------------------------


def _broken(world: World) -> str:
    """The invariant that was broken first; empty: none."""
    broken = world.watch.violations[:1]
    return "".join(f"{one.invariant}: {one.sentence}" for one in broken)


def _judged(played: Played, steady: World, handed: tuple[Verdict, str] | None) -> tuple[Verdict, str]:
    """What a scenario that was played to its end has shown."""
    assert played.during is not None
    return judged(
        played.scenario,
        struck=played.struck,
        lines=played.lines,
        during=played.during,
        usual=str(first(steady).state),
        after=played.after,
        handed=handed,
    )


def _after(scenario: Scenario, world: World, injection: Injection) -> tuple[Checked, ...]:
    """The steady state of the run that was begun once everything had been put back."""
    return scenario.steady_state.check(observe(world, injection, run_after(world)))


def _lines(world: World, spec: FabricSpec) -> tuple[Line, ...]:
    """Each decision of the disturbed run, derived from its journal and the fabric's table alone."""
    return lines_of(_events(world), first(world).tier, baseline.published(spec).compiled)


def _events(world: World) -> list[Event]:
    rows = world.store.rows(first(world).id)
    return [from_row(row.seq, row.kind, row.version, row.header) for row in rows]
