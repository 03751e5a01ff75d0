"""Sends a run's bundle, a fabric's memories, or a list as a file, for pages and the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from tempfile import SpooledTemporaryFile
from typing import IO

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import FileResponse, StreamingHttpResponse

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.secrets.key_ring import KeyUnusable
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import FORMS, ListLines
from fabric.services.memories.changes import memory_export
from fabric.services.runs.export import ZIP_IN_MEMORY, run_export_zip

ZIP, NDJSON = "application/zip", "application/x-ndjson"


def bundle_response(actor: Actor, run_id: str) -> FileResponse:
    """Return the ZIP file of a run's bundle. The audit stream records it, and the journal gets a checkpoint.

    Raises Refused not_found, or unavailable (no key, no place to write to, or a run that is active).
    """
    return FileResponse(_pack_bundle(actor, run_id), as_attachment=True, filename=f"run-{run_id}.zip", content_type=ZIP)


def memories_response(actor: Actor, fabric: str, memory: str = "") -> FileResponse:
    """Return the ledger of a fabric's memories, of one or of all, as lines of JSON. The audit stream records it.

    Raises Refused not_found.
    """
    lines = memory_export(actor=actor, fabric=fabric, memory=memory)
    file = SpooledTemporaryFile(max_size=ZIP_IN_MEMORY)  # noqa: SIM115 - the response closes it.
    file.writelines(lines)
    file.seek(0)
    name = f"{fabric}.{memory or 'memories'}.ndjson"
    return FileResponse(file, as_attachment=True, filename=name, content_type=NDJSON)


def list_response(lines: ListLines, *, first: bytes = b"") -> StreamingHttpResponse:
    """Stream a list a page at a time. The server asks for the next page when the last one was sent. ``first``: the page
    that was read before.
    """
    begun = [first] if first else []
    return lines_response(
        lambda: begun.pop() if begun else lines.next_page(), FORMS[lines.form], f"{lines.name}.{lines.form}"
    )


def lines_response(next_page: Callable[[], bytes], content_type: str, filename: str) -> StreamingHttpResponse:
    """Stream a file of the parts that ``next_page`` returns, until a part is empty."""
    response = StreamingHttpResponse(_pages(next_page), content_type=content_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


async def _pages(next_page: Callable[[], bytes]) -> AsyncIterator[bytes]:
    while page := await sync_to_async(next_page)():
        yield page


def _pack_bundle(actor: Actor, run_id: str) -> IO[bytes]:
    try:
        signer = wiring.signer()
    except KeyUnusable as error:
        raise Refused(str(error), code="unavailable", field="run") from error
    try:
        return run_export_zip(actor=actor, run_id=run_id, signer=signer, checkpoints=settings.FABRIC_CHECKPOINTS)
    except OSError as error:
        # A folder of checkpoints that went away is not made anew: it may be a disk that is not mounted.
        where = error.filename or "a temporary folder"
        message = (
            f"the export could not be written to {where}: {error.strerror}; "
            "see that it is there and can be written, and try again"
        )
        raise Refused(message, code="unavailable", field="run") from error
