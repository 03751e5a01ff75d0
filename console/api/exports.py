"""A run's bundle: what anybody can verify offline, as one file."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import FileResponse, HttpRequest
from ninja import Path, Router

from console.api.callers import actor_of
from console.api.families import EXAMPLE_ID
from console.api.runs import RUN_ID
from console.exporting import ZIP, bundle_response

router = Router(tags=["runs"])
BUNDLE = {"responses": {200: {"content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}}}


@router.post("/runs/{uuid:run_id}/export", url_name="api-run-export", operation_id="exportRun", openapi_extra=BUNDLE)
def export_run(
    request: HttpRequest, run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)]
) -> FileResponse:
    """Export a run as a bundle. The export is told in the audit stream and makes a checkpoint of where the run stands."""
    return bundle_response(actor_of(request), str(run_id))
