"""The part of a review's page where people talk about it, and where a person snoozes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from fabric.core.people.actor import Actor
from fabric.selectors.reviews.comments import CommentView, list_comments
from fabric.selectors.reviews.eligibility import may_answer
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.snoozes import snoozed_until

UNTIL_CHARS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkForm:
    """A refused form: the input of a person, and the reason of the refusal."""

    text: str = ""
    text_problem: str = ""
    until: str = ""
    until_problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Comments of a review with the forms below them."""

    comments: list[CommentView]
    may_comment: bool
    may_snooze: bool
    snoozed_until: int | None
    """Instant until which the viewer has snoozed it, microseconds since the epoch; None: it shows."""
    form: TalkForm
    me: str


def build_talk(actor: Actor, item: ReviewView, form: TalkForm | None = None) -> Talk:
    """Return the talk about a review for its reader. Two statements."""
    person = actor.kind == "person"
    until = snoozed_until(actor, item.id) if item.open else None
    return Talk(
        comments=list_comments(item),
        may_comment=person and item.reads,
        may_snooze=person and item.open and may_answer(item, actor),
        snoozed_until=until,
        form=form or TalkForm(),
        me=actor.name,
    )


def show_talk(
    request: HttpRequest, actor: Actor, item: ReviewView, form: TalkForm | None = None, status: int = 200
) -> HttpResponse:
    """Return the part alone, for the page's script: a decision that is being written stays."""
    talk = build_talk(actor, item, form)
    return render(request, "reviews/talk/section.html", {"review": item, "talk": talk}, status=status)


def read_until(text: str) -> int | None:
    """Return an instant typed as UTC date, or date and time; None: it is neither."""
    try:
        found = datetime.fromisoformat(text.strip()[:UNTIL_CHARS_MAX])
    except ValueError:
        return None
    at = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return int(at.timestamp()) * 1_000_000
    except (OverflowError, ValueError):
        return None
