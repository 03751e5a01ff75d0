"""Drills: what the cells of a fabric's decision table have been shown to do, having them shown, and stopping that."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Path, Query, Router, Status
from pydantic import Field

from console.api.callers import actor_of, scope_wanted
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.scopes import Scope
from fabric.core.taxonomy import FailureType, Tier
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.live_asking import CAP_S_MAX, CAP_S_MIN, CAP_USD_MICROS_MAX
from simulator.drills.models import LIVE
from simulator.drills.names import PARTS
from simulator.drills.selectors import Coverage, DrillView, coverage, drill_get
from simulator.drills.services import SEED_MAX, drill_ask, drill_stop

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
        description="Of live ones: each is ended after so many seconds; null: 180.",
        examples=[None],
    ),
]
CapUsdMicros = Annotated[
    int | None,
    Field(
        ge=1,
        le=CAP_USD_MICROS_MAX,
        description="Of live ones: each is ended when its runs have cost more by their meters, micro-dollars; null: the lesser of three runs' caps and a dollar, "
        "and of a cost overrun four runs' caps and a micro-dollar.",
        examples=[None],
    ),
]


class CellIn(Given):
    """A cell of the decision table."""

    failure: FailureName = Field(description=FAILURE, examples=["provider_failure"])
    tier: TierName = Field(description=TIER, examples=["batch"])


class DrillsIn(Given):
    """Which cells are to be drilled."""

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


class StopIn(Given):
    """Why drills are stopped."""

    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept with the drills and in the audit stream.",
        examples=["The fabric is published anew."],
    )


NO_REASON = StopIn()


class RollbackOut(Told):
    """What was put back when a live drill had ended."""

    done: bool = Field(
        description="Whether everything is as it was; false makes its verdict an error.", examples=[True]
    )
    said: str = Field(
        description="What was done for that, or what stands in the way.", examples=["nothing was left to put back"]
    )


class DrillRunsOut(Told):
    """The runs of a drill that are kept: ids, which the operations on runs that only read take. Null: there is none."""

    before: str | None = Field(description="The undisturbed one.", examples=[EXAMPLE_ID])
    during: str | None = Field(description="The disturbed one.", examples=[EXAMPLE_ID])
    after: str | None = Field(description="The one after everything was put back.", examples=[EXAMPLE_ID])


class DrillOut(Told):
    """One drill: a cell of a revision, or a scenario in a tier, in virtual time or live."""

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
        description="What was put back after a live one; null: nothing has been yet, or it is virtual.", examples=[None]
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
    why: str = Field(description="What is to be said about the verdict.", examples=[""])
    equipped: list[str] = Field(
        description="What the fabric was given so that the failure could be met.", examples=[["a planner"]]
    )
    runs: DrillRunsOut = Field(description="Its runs.")
    asked_by: str = Field(description="Who asked for it.", examples=["owner"])
    reason: str = Field(description="Why, where it was said.", examples=[""])
    asked_at: Instant = Field(description="When it was asked for.")
    started_at: Instant | None = Field(description="When it began; null: it has not.")
    ended_at: Instant | None = Field(description="When it ended; null: it has not.")


class CellOut(Told):
    """What is known of a cell as it is published."""

    failure: FailureName = Field(description=FAILURE)
    tier: TierName = Field(description=TIER)
    state: StateName = Field(
        description="stale: it was drilled, and what its verdict depends on is another by now; never: it was not."
    )
    last: DrillOut | None = Field(description="The drill that the state is by; null: none has a verdict.")


class CoverageOut(Told):
    """What the cells of a fabric have been shown to do."""

    fabric: str = Field(description=FABRIC, examples=["research-desk"])
    mode: ModeName = Field(description=MODE, examples=["virtual"])
    number: int = Field(description="Number of the published revision.", examples=[8])
    proven: int = Field(description="Cells that do, as they are now, what the table says.", examples=[16])
    cells: list[CellOut] = Field(description="All of them, row by row.")
    batches: list[str] = Field(description="Ids of the batches that wait or run.", examples=[[EXAMPLE_BATCH]])


class AskedOut(Told):
    """What was asked for."""

    batch: str = Field(description=BATCH, examples=[EXAMPLE_BATCH])
    drills: list[str] = Field(description="Ids, in the order in which they are done.", examples=[[EXAMPLE_ID]])
    left_out: int = Field(description="Cells that wait or run already.", examples=[0])


class StoppedOut(Told):
    """What was stopped."""

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
    """Get the coverage of a fabric. Which cells of its decision table have been shown to do what they say, as it is published."""
    return _coverage(coverage(actor_of(request), name, mode))


@router.post(
    "/fabrics/{name}/drills", response={202: AskedOut}, url_name="api-fabric-drills", operation_id="askForDrills"
)
def ask_for_drills(
    request: HttpRequest,
    name: Annotated[str, Path(description=FABRIC, example="research-desk")],
    body: Annotated[DrillsIn, Body()],
) -> Any:
    """Ask for drills. A failure is made to happen to the fabric for each cell, in virtual time or live; no model is called and nothing is spent."""
    if body.mode == LIVE:
        scope_wanted(request, Scope.OPERATE, "drill live", "mode")
    cells: Any = body.cells
    if not isinstance(cells, str):
        cells = [(FailureType(one.failure), Tier(one.tier)) for one in cells]
    asked = drill_ask(
        actor=actor_of(request),
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
    """Get a drill. Its verdict, the chain that the table promises and the one that was seen."""
    return drill_told(drill_get(actor_of(request), drill_id))


@router.post("/drills/batches/{batch}/stop", response=StoppedOut, url_name="api-drills-stop", operation_id="stopDrills")
def stop_drills(
    request: HttpRequest,
    batch: Annotated[str, Path(description=BATCH, example=EXAMPLE_BATCH)],
    body: Annotated[StopIn, Body()] = NO_REASON,
) -> StoppedOut:
    """Stop drills. What is left of a batch is not done; for who asked for it, the owner and operators."""
    stopped = drill_stop(actor=actor_of(request), batch=batch, reason=body.reason)
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
                last=drill_told(one.last) if one.last else None,
            )
            for one in seen.cells
        ],
        batches=[one.id for one in seen.batches],
    )


def drill_told(one: DrillView) -> DrillOut:
    """A drill as the API tells it."""
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
        equipped=list(one.equipped),
        runs=DrillRunsOut(**{part: one.body.get("runs", {}).get(part) for part in PARTS}),
        asked_by=one.asked_by,
        reason=one.reason,
        asked_at=instant(one.asked_at),
        started_at=instant(one.started_at),
        ended_at=instant(one.ended_at),
    )
