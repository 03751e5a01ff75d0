"""Operations on all fabrics' drills: the coverage of each, and starting drills of all stale cells."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Query, Router, Status
from pydantic import Field

from console.api.drills.operations import BATCH, EXAMPLE_BATCH, EXAMPLE_ID, FABRIC, StateName
from console.api.shapes.common import Cursor, Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.services.runs.start import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.selectors.fleet import FleetRow, fleet_page
from simulator.drills.services.fleet import FABRICS_AT_ONCE, stale_ask

router = Router(tags=["drills"])


class FleetRowOut(ResponseShape):
    """Drill results of a published fabric in simulated time."""

    fabric: str = Field(description=FABRIC, examples=["research-desk"])
    number: int = Field(description="Number of the published revision.", examples=[8])
    readable: bool = Field(description="False: another version published it, and nothing is known of its cells.")
    proven: int = Field(description="Cells that do, as they are now, what the table says.", examples=[16])
    counts: dict[StateName, int] = Field(
        description="Cells by state. A waiting or running cell counts by its last verdict.",
        examples=[{"pass": 16, "stale": 8}],
    )
    open: int = Field(description="Cells that wait or run.", examples=[0])
    last_at: Instant | None = Field(description="End of the newest drill that counts; null: it was never drilled.")


class FleetOut(ResponseShape):
    """A page of fabrics."""

    fabrics: list[FleetRowOut] = Field(description="By name.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class StaleIn(RequestShape):
    """Reason for drilling all stale cells."""

    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept with the drills and in the audit stream.",
        examples=["Before the release."],
    )


class StaleFabricOut(ResponseShape):
    """Drills that were started of one fabric."""

    fabric: str = Field(description=FABRIC, examples=["research-desk"])
    batch: str = Field(description=BATCH, examples=[EXAMPLE_BATCH])
    drills: list[str] = Field(description="Ids, in the order of execution.", examples=[[EXAMPLE_ID]])


class StaleOut(ResponseShape):
    """Drills that were started of all stale cells."""

    fabrics: list[StaleFabricOut] = Field(description=f"By name, at most {FABRICS_AT_ONCE}.")
    left: int = Field(description="Further fabrics with stale cells: ask again when these have ended.", examples=[0])


NO_REASON = StaleIn()


@router.get("/drills", response=FleetOut, url_name="api-drills", operation_id="listDrillCoverage")
def list_fleet(
    request: HttpRequest,
    never: Annotated[bool, Query(description="Only fabrics that were never drilled.")] = False,
    cursor: Cursor = None,
) -> FleetOut:
    """List the coverage of all fabrics. The counts of their 24 cells each, at most 40 fabrics at a time."""
    page = fleet_page(find_actor(request), after=cursor or "", never=never)
    return FleetOut(fabrics=[_row(one) for one in page.rows], next_cursor=page.next or None)


@router.post("/drills", response={202: StaleOut}, url_name="api-drills", operation_id="askForStaleDrills")
def ask_for_stale(request: HttpRequest, body: Annotated[StaleIn, Body()] = NO_REASON) -> Any:
    """Start drills of all stale cells. In simulated time, of every fabric where the caller may start drills."""
    found = stale_ask(actor=find_actor(request), reason=body.reason, wake=tasks.wake)
    started = [
        StaleFabricOut(fabric=name, batch=one.batch, drills=list(one.drills)) for name, one in found.asked.items()
    ]
    return Status(202, StaleOut(fabrics=started, left=found.left))


def _row(one: FleetRow) -> FleetRowOut:
    stand = one.stand
    return FleetRowOut(
        fabric=one.fabric.name,
        number=one.fabric.number,
        readable=stand is not None,
        proven=stand.proven if stand else 0,
        counts={state.value: count for state, count in stand.counts.items()} if stand else {},
        open=len(one.open),
        last_at=instant(stand.last_at) if stand else None,
    )
