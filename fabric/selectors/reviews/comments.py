"""Reads the comments on reviews."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.models import ReviewComment
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.contents import line_for
from fabric.selectors.reviews.review_view import ReviewView

COMMENTS_SHOWN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentView:
    """One comment. ``at``: microseconds since the epoch, UTC."""

    id: str
    author: str
    text: str
    """Text with credentials masked; a reader without the right to contents gets a stand-in. Empty: it was erased."""
    mentions: tuple[str, ...]
    at: int


def list_comments(item: ReviewView) -> list[CommentView]:
    """Return a review's comments, the oldest first. ``item``: as the actor saw it. One statement."""
    rows = ReviewComment.objects.filter(workspace_id=item.workspace_id, review=item.id).order_by("at", "number")
    return [build_comment_view(row, reads=item.reads) for row in rows[:COMMENTS_SHOWN]]


def build_comment_view(row: ReviewComment, *, reads: bool) -> CommentView:
    """Return a row as its reader may see it."""
    return CommentView(
        id=row.id,
        author=row.author,
        text=line_for(row.text, reads=reads),
        mentions=list_names(row.mentions),
        at=row.at,
    )
