"""Operations on scenarios: library, playing, checking, importing, exporting, and capturing a run's failures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Path, Router, Status
from pydantic import Field

from console.api.drills.operations import FABRIC, FAILURE, AskedOut, CapS, CapUsdMicros, FailureName, Mode, TierName
from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor, scope_wanted
from fabric.core.people.scopes import Scope
from fabric.core.values.taxonomy import Tier
from fabric.services.runs.start import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.library.captures import scenario_capture
from simulator.drills.library.requests import scenario_ask
from simulator.drills.library.selectors import ScenarioView, scenario_get, scenarios_list
from simulator.drills.library.services import NAME_MAX, scenario_check, scenario_import
from simulator.drills.models.tables import LIVE
from simulator.drills.services.drills import SEED_MAX
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.words import disturbances_words
from simulator.texts.toml import BYTES_MAX

router = Router(tags=["scenarios"])
NAME = "The scenario's name."
EXAMPLE = "endpoint-down"
LEFT_OUT = "Parts that cannot be repeated here, one sentence each."
TOML = 'name = "mine"\ntitle = "The endpoint is down"\ndescription = "It stays so."\n\n[[disturbance]]\nfault = "unavailable"\n'
Parameter = bool | int | float | str


class SourceIn(RequestShape):
    """A scenario as text."""

    source: str = Field(
        max_length=BYTES_MAX, description="TOML, or an experiment of chaostoolkit in JSON.", examples=[TOML]
    )


class ImportIn(SourceIn):
    """A scenario to store."""

    name: str = Field(
        default="",
        max_length=NAME_MAX,
        description="In place of the one that it says; empty: as it says.",
        examples=[""],
    )


class CaptureIn(RequestShape):
    """Name of the captured scenario."""

    name: str = Field(
        default="", max_length=NAME_MAX, description="Empty: it is made of the run's id.", examples=["what-broke"]
    )


NO_NAME = CaptureIn()


class PlayIn(RequestShape):
    """Parameters with which a scenario is played."""

    tiers: list[TierName] | None = Field(
        default=None,
        max_length=len(Tier),
        description="In which tiers; null: all that it is for.",
        examples=[["batch"]],
    )
    parameters: dict[str, Parameter] = Field(
        default_factory=dict, description="In place of the scenario's own, by name.", examples=[{"status": 500}]
    )
    number: int | None = Field(
        default=None, ge=1, lt=2**31, description="Number of the revision; null: the published one.", examples=[None]
    )
    seed: int | None = Field(
        default=None, ge=0, le=SEED_MAX, description="Seed of the runs; null: the scenario's own.", examples=[None]
    )
    mode: Mode = "virtual"
    cap_s: CapS = None
    cap_usd_micros: CapUsdMicros = None
    reason: str = Field(
        default="", max_length=REASON_CHARS_MAX, description="Kept with the drills.", examples=["Before the release."]
    )


class ScenarioOut(ResponseShape):
    """A scenario of the library."""

    name: str = Field(description=NAME, examples=[EXAMPLE])
    title: str = Field(description="Description of the scenario.", examples=["The endpoint answers 503 for ever"])
    origin: Literal["shipped", "ours", "captured"] = Field(
        description="ours: written or imported in this workspace; captured: made of a run's failures."
    )
    failure: FailureName | None = Field(description=f"{FAILURE} Null: it promises no decision.")
    tiers: list[TierName] = Field(description="For which it is.")
    seed: int = Field(description="Default seed of its runs.", examples=[1])
    faults: list[str] = Field(description="Names of its faults.", examples=[["unavailable"]])
    problems: list[str] = Field(description="Why this version cannot read it; empty: it can.", examples=[[]])


class ScenarioFullOut(ScenarioOut):
    """A scenario with its source."""

    description: str = Field(description="Its faults and the expected decisions.", examples=["It stays so."])
    words: list[str] = Field(description="Each disturbance as a sentence.", examples=[["503: each model call"]])
    parameters: dict[str, Parameter] = Field(description="By name, each with its default.", examples=[{"status": 503}])
    source: str = Field(description="TOML.", examples=[TOML])
    captured_from: str = Field(description="The run whose failures it repeats; empty: none.", examples=[""])
    version: int = Field(description="Grows with each change; 0: it is shipped.", examples=[0])
    made_by: str = Field(description="Author; empty: built in.", examples=[""])
    made_at: Instant | None = Field(description="When it was made; null: it is shipped.")


class ScenariosOut(ResponseShape):
    """The library."""

    items: list[ScenarioOut] = Field(description="The workspace's own first, then those that are shipped.")


class CheckedOut(ResponseShape):
    """A scenario that can be read."""

    scenario: ScenarioOut = Field(description="Description of the fault.")
    words: list[str] = Field(description="Each disturbance as a sentence.", examples=[["503: each model call"]])
    left_out: list[str] = Field(description=LEFT_OUT, examples=[[]])


class KeptOut(ResponseShape):
    """A stored scenario."""

    scenario: ScenarioFullOut = Field(description="Description of the probe.")
    left_out: list[str] = Field(description=LEFT_OUT, examples=[[]])


class ExportOut(ResponseShape):
    """A scenario for export."""

    toml: str = Field(description="As it is written here.", examples=[TOML])
    chaostoolkit: dict[str, Any] = Field(description="As an experiment of chaostoolkit.", examples=[{"title": "Down"}])


Named = Annotated[str, Path(description=NAME, example=EXAMPLE)]


@router.get("/scenarios", response=ScenariosOut, url_name="api-scenarios", operation_id="listScenarios")
def list_scenarios(request: HttpRequest) -> ScenariosOut:
    """List scenarios. The workspace's own, and the shipped ones."""
    return ScenariosOut(items=[ScenarioOut(**_scenario_fields(one)) for one in scenarios_list(find_actor(request))])


@router.post("/scenarios", response={201: KeptOut}, url_name="api-scenarios", operation_id="importScenario")
def import_scenario(request: HttpRequest, body: Annotated[ImportIn, Body()]) -> Any:
    """Import a scenario. It is stored in the library; the answer lists the parts of an experiment that cannot be
    done here.
    """
    found = scenario_import(actor=find_actor(request), text=body.source, name=body.name)
    return Status(201, KeptOut(scenario=_full(found.view), left_out=list(found.left_out)))


@router.post("/scenarios/check", response=CheckedOut, url_name="api-scenarios-check", operation_id="checkScenario")
def check_scenario(request: HttpRequest, body: Annotated[SourceIn, Body()]) -> CheckedOut:
    """Check a scenario. Every mistake has its line and path; nothing is stored."""
    one, source, left_out = scenario_check(actor=find_actor(request), text=body.source)
    view = ScenarioView(name=one.name, origin="ours", source=source, scenario=one)
    return CheckedOut(
        scenario=ScenarioOut(**_scenario_fields(view)), words=disturbances_words(one), left_out=list(left_out)
    )


@router.get("/scenarios/{scenario_name}", response=ScenarioFullOut, url_name="api-scenario", operation_id="getScenario")
def get_scenario(request: HttpRequest, scenario_name: Named) -> ScenarioFullOut:
    """Get a scenario. With its source, and its disturbances in words."""
    return _full(scenario_get(find_actor(request), scenario_name))


@router.get(
    "/scenarios/{scenario_name}/export",
    response=ExportOut,
    url_name="api-scenario-export",
    operation_id="exportScenario",
)
def export_scenario(request: HttpRequest, scenario_name: Named) -> ExportOut:
    """Export a scenario. As TOML, and as an experiment of chaostoolkit."""
    seen = scenario_get(find_actor(request), scenario_name)
    return ExportOut(toml=seen.source, chaostoolkit=build_experiment(seen.readable()))


@router.post(
    "/fabrics/{name}/scenarios/{scenario_name}/drills",
    response={202: AskedOut},
    url_name="api-scenario-drills",
    operation_id="playScenario",
)
def play_scenario(
    request: HttpRequest,
    name: Annotated[str, Path(description=FABRIC, example="research-desk")],
    scenario_name: Named,
    body: Annotated[PlayIn, Body()],
) -> Any:
    """Play a scenario in a fabric. A drill for each tier, in simulated time or live; no model is called and nothing is
    spent.
    """
    if body.mode == LIVE:
        scope_wanted(request, Scope.OPERATE, "drill live", "mode")
    asked = scenario_ask(
        actor=find_actor(request),
        fabric=name,
        scenario=scenario_name,
        tiers="all" if body.tiers is None else [Tier(one) for one in body.tiers],
        parameters=body.parameters,
        number=body.number,
        seed=body.seed,
        reason=body.reason,
        mode=body.mode,
        cap_s=body.cap_s,
        cap_usd_micros=body.cap_usd_micros,
        wake=tasks.wake,
    )
    return Status(202, AskedOut(batch=asked.batch, drills=list(asked.drills), left_out=asked.left_out))


@router.post("/runs/{run_id}/scenario", response={201: KeptOut}, url_name="api-run-scenario", operation_id="captureRun")
def capture_run(
    request: HttpRequest,
    run_id: Annotated[str, Path(description="Id of the run.", example="01a1df21-a48f-7b1d-a5a3-cd2e9bf09d91")],
    body: Annotated[CaptureIn, Body()] = NO_NAME,
) -> Any:
    """Capture a run. Its failures become a scenario, which leads to equal decisions when it is played in that
    fabric.
    """
    found = scenario_capture(actor=find_actor(request), run_id=run_id, name=body.name)
    return Status(201, KeptOut(scenario=_full(found.view), left_out=list(found.left_out)))


def _scenario_fields(view: ScenarioView) -> dict[str, Any]:
    one = view.scenario
    return {
        "name": view.name,
        "title": view.title,
        "origin": view.origin,
        "failure": one.failure.value if one and one.failure else None,
        "tiers": [tier.value for tier in one.tiers] if one else [],
        "seed": one.seed if one else 0,
        "faults": list(dict.fromkeys(each.fault for each in one.disturbance)) if one else [],
        "problems": list(view.problems),
    }


def _full(view: ScenarioView) -> ScenarioFullOut:
    one: Scenario | None = view.scenario
    return ScenarioFullOut(
        **_scenario_fields(view),
        description=one.description if one else "",
        words=disturbances_words(one) if one else [],
        parameters=dict(one.parameters) if one else {},
        source=view.source,
        captured_from=view.captured_from,
        version=view.version,
        made_by=view.made_by,
        made_at=instant(view.made_at) if view.made_at else None,
    )
