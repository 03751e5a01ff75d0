"""Operations on the talk about a review: its comments, and a person's own snooze."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Router
from pydantic import Field

from console.api.reviews.shapes import Item
from console.api.shapes.common import Instant, Moment, RequestShape, ResponseShape, instant, microseconds
from console.site.access.callers import find_actor
from fabric.selectors.reviews.comments import CommentView, list_comments
from fabric.selectors.reviews.lookup import get_review
from fabric.services.reviews.comments import COMMENTS_MAX, TEXT_CHARS_MAX, comment_add
from fabric.services.reviews.snoozes import review_snooze, snooze_end

router = Router(tags=["reviews"])


class CommentIn(RequestShape):
    """A comment on a review."""

    text: str = Field(
        min_length=1,
        max_length=TEXT_CHARS_MAX,
        description="Plain text. `@name` notifies a member who may read the run.",
        examples=["Is the supplier's number right?"],
    )


class CommentOut(ResponseShape):
    """A comment, its author and instant."""

    id: str = Field(description="Its id.", examples=["019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"])
    author: str = Field(description="Person who wrote it.", examples=["ana"])
    at: Instant = Field(description="When.")
    text: str = Field(
        description="Its text, with credentials masked. Empty: it was erased.",
        examples=["Is the supplier's number right?"],
    )
    mentions: list[str] = Field(description="Members whom it mentions.", examples=[[]])


class CommentsOut(ResponseShape):
    """Comments on a review."""

    comments: list[CommentOut] = Field(description=f"The oldest first; a review has at most {COMMENTS_MAX}.")


class SnoozeIn(RequestShape):
    """End of a snooze."""

    until: Moment | None = Field(
        description="Before the review is due; null: it shows again now.", examples=["2026-11-30T18:00:00Z"]
    )


class SnoozedOut(ResponseShape):
    """A snooze of the caller."""

    review_id: str = Field(description="The review's id.", examples=["4f1c9a2be07d3358"])
    until: Instant | None = Field(description="End of the snooze; null: the review shows.")


@router.get(
    "/reviews/{review_id}/comments",
    response=CommentsOut,
    url_name="api-review-comments",
    operation_id="listReviewComments",
)
def list_talk(request: HttpRequest, review_id: Item) -> CommentsOut:
    """List the comments on a review. Without the right to contents their text is withheld."""
    item = get_review(find_actor(request), review_id)
    return CommentsOut(comments=[_shape(one) for one in list_comments(item)])


@router.post(
    "/reviews/{review_id}/comments",
    response=CommentOut,
    url_name="api-review-comments",
    operation_id="commentOnReview",
)
def comment(request: HttpRequest, review_id: Item, body: Annotated[CommentIn, Body()]) -> CommentOut:
    """Comment on a review. In the caller's name, open or decided; all snoozes of it end."""
    return _shape(comment_add(actor=find_actor(request), review_id=review_id, text=body.text))


@router.post(
    "/reviews/{review_id}/snooze",
    response=SnoozedOut,
    url_name="api-review-snooze",
    operation_id="snoozeReview",
)
def snooze(request: HttpRequest, review_id: Item, body: Annotated[SnoozeIn, Body()]) -> SnoozedOut:
    """Hide a review from the caller's own list until a time. No due time moves. A change of the review ends it."""
    actor = find_actor(request)
    until = microseconds(body.until)
    if until is None:
        snooze_end(actor=actor, review_id=review_id)
    else:
        review_snooze(actor=actor, review_id=review_id, until=until)
    return SnoozedOut(review_id=get_review(actor, review_id).id, until=instant(until))


def _shape(one: CommentView) -> CommentOut:
    return CommentOut(id=one.id, author=one.author, at=instant(one.at), text=one.text, mentions=list(one.mentions))
