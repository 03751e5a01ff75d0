"""Operations on drills: coverage of a fabric's cells, starting and stopping drills, results as files, the drill stop.

Results are reports as ``manage.py drill`` writes them, chaostoolkit's journal, or pytest modules. The drill stop is
read, pulled or released.
"""

from __future__ import annotations

from io import BytesIO
from typing import Annotated, Any, Literal

from django.http import FileResponse, HttpRequest
from ninja import Body, Path, Query, Router, Status
from pydantic import Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.pages.drills.downloads import PYTHON, pytest_report
from console.site.access.callers import find_actor, scope_wanted
from fabric.core.people.actor import Actor
from fabric.core.people.scopes import Scope
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.runs.start import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.live.conditions import CAP_S_MAX, CAP_S_MIN, CAP_USD_MICROS_MAX
from simulator.drills.models.tables import LIVE
from simulator.drills.reports.drills import FORMS, Form, Report, Written, batch_report, coverage_report, drill_report
from simulator.drills.runs.names import PARTS
from simulator.drills.selectors.drill_views import Coverage, DrillView
from simulator.drills.selectors.drills import batch_get, coverage, drill_get
from simulator.drills.services.drill_stop import find_drill_stop, pull_drill_stop, release_drill_stop
from simulator.drills.services.drills import SEED_MAX, drill_ask, stop_drills

router = Router(tags=["drills"])
CELLS = len(FailureType) * len(Tier)
EXAMPLE_ID, EXAMPLE_BATCH = "01a20ad2-a0da-75e8-86f0-896fd8797a56", "01a20ad2-a0d9-7bc0-8f56-0c2d5b1e9a11"
FABRIC = "The fabric's name."
DRILL_ID = "Id of the drill."
BATCH = "Id of the batch: drills that were asked for together."
FAILURE, TIER = "Row of the decision table.", "Column of the decision table."
FailureName = Literal[
    "infinite_tool_loop",
    "sub_agent_deadlock",
    "cost_overrun",
    "provider_failure",
    "schema_grounding_fail",
    "plan_malformed",
    "semantic_no_progress",
    "unsafe_output",
]
"""``FailureType``, by test."""
TierName = Literal["interactive", "batch", "high_stakes"]
"""``Tier``, by test."""
ModeName = Literal["virtual", "live"]
"""``MODES``, by test."""
MODE = (
    "virtual: in the simulated world, on its clock; live: on this installation's workers, broker, database and clock."
)
StateName = Literal["pass", "deviated", "error", "unknown", "stale", "never", "queued", "running"]
"""``State``, by test."""


Mode = Annotated[
    ModeName,
    Field(
        description="virtual: in the simulated world, on its clock; live: on this installation's workers, broker, database and clock, with scripted answers, "
        "for the owner and operators.",
        examples=["virtual"],
    ),
]
CapS = Annotated[
    int | None,
    Field(
        ge=CAP_S_MIN,
        le=CAP_S_MAX,
        description="For live drills: seconds after which each one ends; null: 180.",
        examples=[None],
    ),
]
CapUsdMicros = Annotated[
    int | None,
    Field(
        ge=1,
        le=CAP_USD_MICROS_MAX,
        description="For live drills: cost in micro-dollars at which each one ends. Null: the smaller of three runs' caps and one dollar; for a cost overrun, four runs' caps and one micro-dollar.",
        examples=[None],
    ),
]


class CellIn(RequestShape):
    """A cell of the decision table."""

    failure: FailureName = Field(description=FAILURE, examples=["provider_failure"])
    tier: TierName = Field(description=TIER, examples=["batch"])


class DrillsIn(RequestShape):
    """Cells to drill."""

    cells: Literal["all", "stale"] | Annotated[list[CellIn], Field(min_length=1, max_length=CELLS)] = Field(
        description="all; stale: those without a verdict about what they are now; or the cells themselves.",
        examples=["stale"],
    )
    number: int | None = Field(
        default=None, ge=1, lt=2**31, description="Number of the revision; null: the published one.", examples=[None]
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=SEED_MAX,
        description="Makes each drill the same as another with it; null: one is drawn.",
        examples=[None],
    )
    mode: Mode = "virtual"
    cap_s: CapS = None
    cap_usd_micros: CapUsdMicros = None
    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept with the drills and in the audit stream.",
        examples=["Before the release."],
    )


class StopIn(RequestShape):
    """Reason for stopping drills."""

    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept with the drills and in the audit stream.",
        examples=["The fabric is published again."],
    )


NO_REASON = StopIn()


class RollbackOut(ResponseShape):
    """Changes that were reverted after a live drill."""

    done: bool = Field(
        description="True if everything was restored; false makes the verdict an error.", examples=[True]
    )
    said: str = Field(
        description="Steps of the restoration, or the obstacle.", examples=["nothing was left to put back"]
    )


class DrillRunsOut(ResponseShape):
    """Ids of a drill's kept runs, which operations that only read runs accept. Null: no run was kept."""

    before: str | None = Field(description="The undisturbed one.", examples=[EXAMPLE_ID])
    during: str | None = Field(description="The disturbed one.", examples=[EXAMPLE_ID])
    after: str | None = Field(description="The one after everything was put back.", examples=[EXAMPLE_ID])


class DrillOut(ResponseShape):
    """One drill: a cell of a revision, or a scenario in a tier, in simulated time or live."""

    id: str = Field(description=DRILL_ID, examples=[EXAMPLE_ID])
    batch: str = Field(description=BATCH, examples=[EXAMPLE_BATCH])
    fabric: str = Field(description=FABRIC, examples=["research-desk"])
    number: int = Field(description="Number of the revision; of a draft, of its author's drilled drafts.", examples=[8])
    author: str = Field(
        description="Whose draft of the fabric was drilled; empty: a published revision was. It is in no coverage.",
        examples=[""],
    )
    mode: ModeName = Field(description=MODE, examples=["virtual"])
    cap_s: int | None = Field(
        description="A live one is ended after so many seconds; null: it is virtual.", examples=[None]
    )
    cap_usd_micros: int | None = Field(
        description="A live one is ended when its runs have cost more by their meters, micro-dollars; null: it is virtual.",
        examples=[None],
    )
    rollback: RollbackOut | None = Field(
        description="State restored after a live drill; null: not yet, or a simulated drill.", examples=[None]
    )
    scenario: str = Field(description="The scenario that is played; empty: the cell itself is drilled.", examples=[""])
    failure: FailureName | None = Field(description=f"{FAILURE} Null: the scenario promises no decision.")
    tier: TierName = Field(description=TIER)
    seed: int = Field(description="With it the same drill is the same again.", examples=[20261118])
    status: Literal["queued", "running", "completed", "failed", "aborted", "interrupted"] = Field(
        description="failed: it says nothing about the cell; aborted: it was stopped, or met a limit of its own; interrupted: the process that drove it ended."
    )
    verdict: Literal["", "pass", "deviated", "error", "unknown"] = Field(description="Empty: it has none.")
    expected: str = Field(
        description="The chain that the table promises: decisions in their order, and the run's end.",
        examples=["retry > surface > failed"],
    )
    observed: str = Field(description="The chain that was seen.", examples=["retry > surface > failed"])
    why: str = Field(description="Explanation of the verdict.", examples=[""])
    equipped: list[str] = Field(
        description="Parts that the drill added to the fabric to make the failure possible.", examples=[["a planner"]]
    )
    runs: DrillRunsOut = Field(description="Its runs.")
    asked_by: str = Field(description="Member who started it.", examples=["owner"])
    reason: str = Field(description="Why, where it was said.", examples=[""])
    asked_at: Instant = Field(description="When it was asked for.")
    started_at: Instant | None = Field(description="When it began; null: it has not.")
    ended_at: Instant | None = Field(description="When it ended; null: it has not.")


class CellOut(ResponseShape):
    """Results of a published cell."""

    failure: FailureName = Field(description=FAILURE)
    tier: TierName = Field(description=TIER)
    state: StateName = Field(
        description="stale: it was drilled, and what its verdict depends on is another by now; never: it was not."
    )
    last: DrillOut | None = Field(description="The drill that the state is by; null: none has a verdict.")


class CoverageOut(ResponseShape):
    """Drill results of a fabric's cells."""

    fabric: str = Field(description=FABRIC, examples=["research-desk"])
    mode: ModeName = Field(description=MODE, examples=["virtual"])
    number: int = Field(description="Number of the published revision.", examples=[8])
    proven: int = Field(description="Cells that do, as they are now, what the table says.", examples=[16])
    cells: list[CellOut] = Field(description="All of them, row by row.")
    batches: list[str] = Field(description="Ids of the batches that wait or run.", examples=[[EXAMPLE_BATCH]])


class AskedOut(ResponseShape):
    """Drills that were started."""

    batch: str = Field(description=BATCH, examples=[EXAMPLE_BATCH])
    drills: list[str] = Field(description="Ids, in the order in which they are done.", examples=[[EXAMPLE_ID]])
    left_out: int = Field(description="Cells that wait or run already.", examples=[0])


class StoppedOut(ResponseShape):
    """Drills that were stopped."""

    batch: str = Field(description=BATCH, examples=[EXAMPLE_BATCH])
    stopped: int = Field(description="Drills that will have no verdict.", examples=[7])


@router.get(
    "/fabrics/{name}/drills", response=CoverageOut, url_name="api-fabric-drills", operation_id="getDrillCoverage"
)
def get_coverage(
    request: HttpRequest,
    name: Annotated[str, Path(description=FABRIC, example="research-desk")],
    mode: Annotated[ModeName, Query(description=f"By which drills. {MODE}")] = "virtual",
) -> CoverageOut:
    """Get the coverage of a fabric. The cells of its published decision table, with the results of their drills."""
    return _coverage(coverage(find_actor(request), name, mode))


@router.post(
    "/fabrics/{name}/drills", response={202: AskedOut}, url_name="api-fabric-drills", operation_id="askForDrills"
)
def ask_for_drills(
    request: HttpRequest,
    name: Annotated[str, Path(description=FABRIC, example="research-desk")],
    body: Annotated[DrillsIn, Body()],
) -> Any:
    """Start drills. Each cell's failure is caused in the fabric, in simulated time or live; no model is called and
    nothing is spent.
    """
    if body.mode == LIVE:
        scope_wanted(request, Scope.OPERATE, "drill live", "mode")
    cells: Any = body.cells
    if not isinstance(cells, str):
        cells = [(FailureType(one.failure), Tier(one.tier)) for one in cells]
    asked = drill_ask(
        actor=find_actor(request),
        fabric=name,
        cells=cells,
        number=body.number,
        seed=body.seed,
        mode=body.mode,
        cap_s=body.cap_s,
        cap_usd_micros=body.cap_usd_micros,
        reason=body.reason,
        wake=tasks.wake,
    )
    return Status(202, AskedOut(batch=asked.batch, drills=list(asked.drills), left_out=asked.left_out))


@router.get("/drills/{drill_id}", response=DrillOut, url_name="api-drill", operation_id="getDrill")
def get_drill(
    request: HttpRequest, drill_id: Annotated[str, Path(description=DRILL_ID, example=EXAMPLE_ID)]
) -> DrillOut:
    """Get a drill. With its verdict, the chain that the table promises and the observed one."""
    return drill_shape(drill_get(find_actor(request), drill_id))


@router.post(
    "/drills/batches/{batch}/stop", response=StoppedOut, url_name="api-drills-batch-stop", operation_id="stopDrills"
)
def stop(
    request: HttpRequest,
    batch: Annotated[str, Path(description=BATCH, example=EXAMPLE_BATCH)],
    body: Annotated[StopIn, Body()] = NO_REASON,
) -> StoppedOut:
    """Stop drills. The remaining drills of a batch are dropped; for the person who started it, the owner and
    operators.
    """
    stopped = stop_drills(actor=find_actor(request), batch=batch, reason=body.reason)
    return StoppedOut(batch=batch, stopped=stopped)


def _coverage(seen: Coverage) -> CoverageOut:
    return CoverageOut(
        fabric=seen.fabric.name,
        mode=seen.mode,
        number=seen.fabric.number,
        proven=seen.proven,
        cells=[
            CellOut(
                failure=one.failure.value,
                tier=one.tier.value,
                state=one.state.value,
                last=drill_shape(one.last) if one.last else None,
            )
            for one in seen.cells
        ],
        batches=[one.id for one in seen.batches],
    )


def drill_shape(one: DrillView) -> DrillOut:
    """Return a drill in the API's shape."""
    given: Any = {
        name: getattr(one, name)
        for name in (
            "id",
            "batch",
            "fabric",
            "number",
            "author",
            "mode",
            "cap_s",
            "cap_usd_micros",
            "scenario",
            "seed",
            "verdict",
            "expected",
            "observed",
            "why",
        )
    }
    return DrillOut(
        **given,
        failure=one.failure.value if one.failure else None,
        tier=one.tier.value,
        status=one.status.value,
        rollback=RollbackOut(**one.body["rollback"]) if one.body.get("rollback") else None,
        equipped=list(one.equipment),
        runs=DrillRunsOut(**{part: one.body.get("runs", {}).get(part) for part in PARTS}),
        asked_by=one.asked_by,
        reason=one.reason,
        asked_at=instant(one.asked_at),
        started_at=instant(one.started_at),
        ended_at=instant(one.ended_at),
    )


drill_stop_router = Router(tags=["drills"])


class DrillStopIn(RequestShape):
    """Reason for moving the drill stop."""

    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept with the drills that it ends and in the audit stream.",
        examples=["The provider asked for quiet."],
    )


class DrillStopOut(ResponseShape):
    """State of the drill stop."""

    pulled: bool = Field(description="True while drills are stopped: every drill has ended and none can start.")
    by: str = Field(description="Member who stopped drills; empty: drills are allowed.", examples=["owner"])
    at: Instant | None = Field(description="When; null: it rests.")
    reason: str = Field(description="Why; empty: it rests.", examples=["The provider asked for quiet."])
    stopped: int = Field(description="Drills that this call ended.", examples=[7])


@drill_stop_router.get("/drill-stop", response=DrillStopOut, url_name="api-drill-stop", operation_id="getDrillStop")
def show(request: HttpRequest) -> DrillStopOut:
    """Get the drill stop. While it is pulled, no drill of the workspace begins, virtual or live."""
    return _drill_stop_shape(find_actor(request))


@drill_stop_router.post(
    "/drill-stop/pull", response=DrillStopOut, url_name="api-drill-stop-pull", operation_id="pullDrillStop"
)
def pull(request: HttpRequest, body: Annotated[DrillStopIn, Body()]) -> DrillStopOut:
    """Pull the drill stop. Every waiting or running drill ends within a second, and none begins until it is
    released. For the owner and operators.
    """
    ended = pull_drill_stop(actor=find_actor(request), reason=body.reason)
    return _drill_stop_shape(find_actor(request), ended)


@drill_stop_router.post(
    "/drill-stop/release", response=DrillStopOut, url_name="api-drill-stop-release", operation_id="releaseDrillStop"
)
def release(request: HttpRequest, body: Annotated[DrillStopIn, Body()]) -> DrillStopOut:
    """Release the drill stop. New drills may start; those that were ended stay ended. For the owner and
    operators.
    """
    release_drill_stop(actor=find_actor(request), reason=body.reason)
    return _drill_stop_shape(find_actor(request))


def _drill_stop_shape(actor: Actor, stopped: int = 0) -> DrillStopOut:
    seen = find_drill_stop(actor)
    if seen is None:
        return DrillStopOut(pulled=False, by="", at=None, reason="", stopped=stopped)
    return DrillStopOut(pulled=True, by=seen.pulled_by, at=instant(seen.pulled_at), reason=seen.reason, stopped=stopped)


report_router = Router(tags=["drills"])
FORM = "html: to read and to print; json: one line; junit: for a pipeline. What has no verdict, or a stale one, is unknown, and never a pass."


def _files(*media: str) -> dict[str, Any]:
    """Return the response schema of an operation: an object for JSON, text otherwise."""
    content = {
        one: {"schema": {"type": "object" if one == "application/json" else "string"}} for one in dict.fromkeys(media)
    }
    return {"responses": {200: {"content": content}}}


def _file(report: Report) -> FileResponse:
    """Return a report as a download."""
    text = BytesIO(report.text.encode("utf-8", "surrogatepass"))
    return FileResponse(text, as_attachment=True, filename=report.name, content_type=report.media)


EVERY = _files(*(media for media, _ in FORMS.values()))


@report_router.get(
    "/drills/{drill_id}/report", url_name="api-drill-report", operation_id="getDrillReport", openapi_extra=EVERY
)
def get_drill_report(
    request: HttpRequest,
    drill_id: Annotated[str, Path(description=DRILL_ID, example=EXAMPLE_ID)],
    form: Annotated[
        Form,
        Query(description=f"{FORM} journal: as chaostoolkit writes it, of what played a scenario.", example="junit"),
    ] = "json",
) -> FileResponse:
    """Get the report of a drill. Its chains and its verdict as a file."""
    return _file(drill_report(drill_get(find_actor(request), drill_id), form))


@report_router.get(
    "/drills/batches/{batch}/report",
    url_name="api-drills-batch-report",
    operation_id="getDrillBatchReport",
    openapi_extra=EVERY,
)
def get_batch_report(
    request: HttpRequest,
    batch: Annotated[str, Path(description=BATCH, example=EXAMPLE_BATCH)],
    form: Annotated[Written, Query(description=FORM, example="junit")] = "json",
) -> FileResponse:
    """Get the report of a batch of drills. It contains all drills of the batch, also waiting and stopped ones."""
    return _file(batch_report(batch_get(find_actor(request), batch), form))


@report_router.get(
    "/fabrics/{name}/drills/report",
    url_name="api-fabric-drills-report",
    operation_id="getDrillCoverageReport",
    openapi_extra=EVERY,
)
def get_coverage_report(
    request: HttpRequest,
    name: Annotated[str, Path(description=FABRIC, example="research-desk")],
    form: Annotated[Written, Query(description=FORM, example="junit")] = "json",
) -> FileResponse:
    """Get the report of a fabric's coverage. The 24 cells of its published decision table."""
    return _file(coverage_report(coverage(find_actor(request), name), form))


@report_router.get(
    "/drills/{drill_id}/pytest",
    url_name="api-drill-pytest",
    operation_id="getDrillTest",
    openapi_extra=_files(PYTHON),
)
def get_drill_test(
    request: HttpRequest, drill_id: Annotated[str, Path(description=DRILL_ID, example=EXAMPLE_ID)]
) -> FileResponse:
    """Get a drill as a test of pytest. It passes if the drill passes; for a deviation it fails until that is fixed."""
    actor = find_actor(request)
    return _file(pytest_report(actor, drill_get(actor, drill_id)))
