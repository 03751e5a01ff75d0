"""A run's bundle as a download: events, revision, decisions, chain, a signed checkpoint, and what verifies them offline."""

from __future__ import annotations

from uuid import UUID

from django.http import FileResponse, HttpRequest
from django.views.decorators.http import require_POST

from console.access import actor_on_run
from console.exporting import bundle_response


@require_POST
def export(request: HttpRequest, run_id: UUID) -> FileResponse:
    """A ZIP file. 503: no key, or no place to write to."""
    return bundle_response(actor_on_run(request), str(run_id))
