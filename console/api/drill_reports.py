"""What drills came to, as files: reports as ``manage.py drill`` writes them, chaostoolkit's journal, and a drill as a test of pytest."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated, Any

from django.http import FileResponse, HttpRequest
from ninja import Path, Query, Router

from console.api.callers import actor_of
from console.api.drills import BATCH, DRILL_ID, EXAMPLE_BATCH, EXAMPLE_ID, FABRIC
from console.views.drill_downloads import PYTHON, pytest_report
from simulator.drills.selectors import batch_get, coverage, drill_get
from simulator.drills.stored_reports import FORMS, Form, Report, Written, batch_report, coverage_report, drill_report

router = Router(tags=["drills"])
FORM = "html: to read and to print; json: one line; junit: for a pipeline. What has no verdict, or a stale one, is unknown, and never a pass."


def _files(*media: str) -> dict[str, Any]:
    """What an operation answers with: an object where it is JSON, text otherwise."""
    content = {
        one: {"schema": {"type": "object" if one == "application/json" else "string"}} for one in dict.fromkeys(media)
    }
    return {"responses": {200: {"content": content}}}


def _file(report: Report) -> FileResponse:
    """A report as a download."""
    text = BytesIO(report.text.encode("utf-8", "surrogatepass"))
    return FileResponse(text, as_attachment=True, filename=report.name, content_type=report.media)


EVERY = _files(*(media for media, _ in FORMS.values()))


@router.get(
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
    return _file(drill_report(drill_get(actor_of(request), drill_id), form))


@router.get(
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
    """Get the report of a batch of drills. All that were asked for together, also those that wait or were stopped."""
    return _file(batch_report(batch_get(actor_of(request), batch), form))


@router.get(
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
    """Get the report of a fabric's coverage. The 24 cells of its decision table, as it is published."""
    return _file(coverage_report(coverage(actor_of(request), name), form))


@router.get(
    "/drills/{drill_id}/pytest",
    url_name="api-drill-pytest",
    operation_id="getDrillTest",
    openapi_extra=_files(PYTHON),
)
def get_drill_test(
    request: HttpRequest, drill_id: Annotated[str, Path(description=DRILL_ID, example=EXAMPLE_ID)]
) -> FileResponse:
    """Get a drill as a test of pytest. It passes where the drill passes; of one that deviated it fails until that is mended."""
    actor = actor_of(request)
    return _file(pytest_report(actor, drill_get(actor, drill_id)))
