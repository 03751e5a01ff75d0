"""Serves the events of a run as a stream of server-sent events, which goes on until the run ends."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Header, Path, Query, Router

from console.api.runs.operations import RUN_ID
from console.api.runs.records import SEQ_MAX
from console.api.runs.streaming import EVENTS_A_READ, HEARTBEAT, MEDIA_TYPE, Stream, is_over, may_stream, write_page
from console.api.shapes.common import EXAMPLE_ID
from console.live.admission import places, token_place
from console.site.access.callers import find_caller
from console.site.errors.problems import Problem
from fabric.selectors.runs.export.bundle import run_envelopes

router = Router(tags=["events"])
RETRY_MS = 2_000
"""Milliseconds after which a caller that was cut should come back."""
STREAM = {
    "responses": {
        200: {
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    }
}
LastEventId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=SEQ_MAX,
        description="The id of the last event you have; it counts before after.",
        example=7,
    ),
]


@router.get(
    "/runs/{uuid:run_id}/stream", url_name="api-run-stream", operation_id="streamRunEvents", openapi_extra=STREAM
)
def stream_events(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    after: Annotated[
        int, Query(ge=0, le=SEQ_MAX, description="The seq of the last event you have; 0 from the beginning.")
    ] = 0,
    content: Annotated[
        Literal["include", "omit"], Query(description="omit: the facts alone, without what they carry.")
    ] = "include",
    last_event_id: LastEventId = None,
) -> StreamingHttpResponse:
    """Stream a run's events. Server-sent events, each with its seq as id, its kind as event, and the event as data;
    comments in silence. The event `end` says that the run has ended. 20 streams and sockets of a caller may be open.
    """
    caller, key = find_caller(request), str(run_id)
    user = token_place(caller.token) if caller.token else caller.actor.name
    if places.is_full(user):
        message = f"{user} has {places.most} streams and sockets open: close one first"
        raise Problem(429, message, headers={"Retry-After": "10"})
    begin = after if last_event_id is None else last_event_id
    page = run_envelopes(caller.actor, key, after=begin, limit=EVENTS_A_READ, contents=content == "include")
    may_stream(request, Stream(key, user, page.last, contents=content == "include", ended=is_over(page)))
    # Some clients take a lone field for an event: the wait before coming back stands in the first event.
    text = f"retry: {RETRY_MS}\n{write_page(page)}" if page.events else write_page(page) or HEARTBEAT
    return StreamingHttpResponse((text.encode(),), content_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})
