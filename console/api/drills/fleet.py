"""The operation on all fabrics' drills: how many cells of each are verified, stale or were never drilled."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from console.api.drills.operations import FABRIC, StateName
from console.api.shapes.common import Cursor, Instant, ResponseShape, instant
from console.site.access.callers import find_actor
from simulator.drills.selectors.fleet import FleetRow, fleet_page

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


@router.get("/drills", response=FleetOut, url_name="api-drills", operation_id="listDrillCoverage")
def list_fleet(
    request: HttpRequest,
    never: Annotated[bool, Query(description="Only fabrics that were never drilled.")] = False,
    cursor: Cursor = None,
) -> FleetOut:
    """List the coverage of all fabrics. The counts of their 24 cells each, at most 40 fabrics at a time."""
    page = fleet_page(find_actor(request), after=cursor or "", never=never)
    return FleetOut(fabrics=[_row(one) for one in page.rows], next_cursor=page.next or None)


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
