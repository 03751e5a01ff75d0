"""A run's bundle as a download: events, revision, decisions, chain, a signed checkpoint, and what verifies them offline."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.http import FileResponse, HttpRequest
from django.views.decorators.http import require_POST

from console.access import actor_of
from fabric import wiring
from fabric.adapters.signing import KeyUnusable
from fabric.selectors.errors import Refused
from fabric.services.exports import run_export_zip


@require_POST
def export(request: HttpRequest, run_id: UUID) -> FileResponse:
    """A ZIP file. It is told in the audit stream, and makes a checkpoint of where the run stands. 503: no key, or no place to write to."""
    key = str(run_id)
    try:
        signer = wiring.signer()
    except KeyUnusable as error:
        raise Refused(str(error), code="unavailable", field="run") from error
    try:
        packed = run_export_zip(
            actor=actor_of(request.user), run_id=key, signer=signer, checkpoints=settings.FABRIC_CHECKPOINTS
        )
    except OSError as error:
        # A folder of checkpoints that went away is not made anew: it may be a disk that is not mounted.
        where = error.filename or "a temporary folder"
        message = (
            f"the export could not be written to {where}: {error.strerror}; "
            "see that it is there and can be written, and try again"
        )
        raise Refused(message, code="unavailable", field="run") from error
    return FileResponse(packed, as_attachment=True, filename=f"run-{key}.zip", content_type="application/zip")
