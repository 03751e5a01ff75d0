"""Operations on labels of a run, and the export of runs that a query finds."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.runs.operations import RUN_ID, QueryLine, Sort, Zone, query_times_out, read_query
from console.api.shapes.common import EXAMPLE_ID, FILE, RequestShape, ResponseShape
from console.site.access.callers import find_actor
from console.site.downloads import list_response
from fabric.core.values.labels import KEY_CHARS_MAX, LABELS_MAX, VALUE_CHARS_MAX
from fabric.selectors.runs.query.list_pages import fabric_ids
from fabric.selectors.runs.query.orders import read_order
from fabric.selectors.runs.query.run_lines import RunLines
from fabric.services.runs.labels import run_label

router = Router(tags=["runs"])


class LabelsIn(RequestShape):
    """A change of a run's labels."""

    set: dict[str, str] = Field(
        default_factory=dict,
        description=f"Values by key: keys of at most {KEY_CHARS_MAX} lower-case letters, digits, -, _ and .; values of at most {VALUE_CHARS_MAX} "
        f"characters; {LABELS_MAX} labels a run.",
        examples=[{"team": "ops"}],
    )
    delete: list[str] = Field(default_factory=list, description="Keys that are removed.", examples=[["case"]])


class LabelsOut(ResponseShape):
    """Labels of a run after a change."""

    run_id: str = Field(description="The run's id.")
    labels: dict[str, str] = Field(description="All its labels, by key.", examples=[{"team": "ops"}])


@router.post("/runs/{uuid:run_id}/labels", response=LabelsOut, url_name="api-run-labels", operation_id="labelRun")
def label_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[LabelsIn, Body()],
) -> LabelsOut:
    """Set and remove labels of a run. Its child runs have the same ones; the audit stream records the change."""
    labels = run_label(actor=find_actor(request), run_id=str(run_id), set=body.set, delete=body.delete)
    return LabelsOut(run_id=str(run_id), labels=labels)


@router.get("/runs/export", url_name="api-runs-export", operation_id="exportRuns", openapi_extra=FILE)
def export_runs(
    request: HttpRequest,
    q: QueryLine = None,
    sort: Sort = None,
    zone: Zone = None,
    form: Annotated[
        Literal["csv", "ndjson"], Query(alias="format", description="CSV for spreadsheets, or lines of JSON.")
    ] = "ndjson",
) -> StreamingHttpResponse:
    """Export runs. Those that a query finds, streamed, at most 100,000. A file that lacks runs says so in its last
    line.
    """
    actor = find_actor(request)
    fabrics = fabric_ids(actor)
    query = read_query(q or "", tuple(fabrics), zone)
    lines = RunLines(actor, query, fabrics, read_order(sort or "", query), form=form)
    with query_times_out():
        return list_response(lines, first=lines.next_page())
