"""Comments on reviews: plain text, with mentions of members who may read the run."""

from __future__ import annotations

import re
import time

from django.db import IntegrityError, transaction
from django.db.models import Max

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import Person, is_asked
from fabric.core.people.roles import Right, has
from fabric.core.texts.text import clean_text
from fabric.models import ReviewComment, ReviewSnooze
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.reviews.comments import CommentView, build_comment_view
from fabric.selectors.reviews.eligibility import build_review_rules
from fabric.selectors.reviews.lookup import get_review, person_named
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.notifications.mention_mail import mentions_notify

TEXT_CHARS_MAX = 4_000
COMMENTS_MAX = 500
"""Comments on one review."""
MENTIONS_MAX = 20
TRIES = 20
"""Tries to number a comment while others comment on the same run."""
_MENTION = re.compile(r"(?<![\w@.+-])@([\w.@+-]*\w)")


def comment_add(*, actor: Actor, review_id: str, text: str) -> CommentView:
    """Comment on a review, open or decided. Mentioned members are notified. All snoozes of it end.

    Raises Refused: not_found, forbidden (no person, or no right to the contents), invalid (no text, an unknown member,
    one who may not read the run), too_large, conflict (too many comments), unavailable.
    """
    item = get_review(actor, review_id)
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people comment: sign in as a person"
        raise Refused(message, code="forbidden", field="actor")
    if not item.reads:
        message = f"{actor.name} may not read the contents of review {item.id}, which comments may quote"
        raise Refused(message, code="forbidden", field="actor")
    said = _text(text)
    names = _mentioned(actor, item, said)
    for _ in range(TRIES):
        try:
            return build_comment_view(_write(actor, item, said, names), reads=True)
        except IntegrityError:
            continue  # Another comment took the number at this moment.
    raise Refused("others comment on this run at this moment; try again", code="unavailable", field="text")


def _write(actor: Actor, item: ReviewView, said: str, names: tuple[str, ...]) -> ReviewComment:
    if ReviewComment.objects.filter(review=item.id).count() >= COMMENTS_MAX:
        message = f"review {item.id} has {COMMENTS_MAX} comments, the most that it may have"
        raise Refused(message, code="conflict", field="text")
    last = ReviewComment.objects.filter(run_id=item.run_id).aggregate(last=Max("number"))["last"] or 0
    with transaction.atomic():
        row = ReviewComment.objects.create(
            workspace_id=actor.workspace_id,
            run_id=item.run_id,
            review=item.id,
            number=last + 1,
            author=actor.name,
            text=said,
            mentions=names_text(names),
            at=time.time_ns() // 1_000,
        )
        ReviewSnooze.objects.filter(review=item.id).delete()
        mentions_notify(actor=actor, item=item, comment=row, names=names)
        more = {"item": item.id, "number": row.number, "mentions": list(names) or None}
        audit_record(actor=actor, act=Act.REVIEW_COMMENTED, subject=item.run_id, **more)
    return row


def _text(text: str) -> str:
    said = clean_text(text)[0].strip()
    if not said:
        raise Refused("the comment is empty: write something", code="invalid", field="text")
    if len(said) > TEXT_CHARS_MAX:
        message = f"the comment has {len(said):,} characters; at most {TEXT_CHARS_MAX:,} are taken; make it shorter"
        raise Refused(message, code="too_large", field="text")
    return said


def _mentioned(actor: Actor, item: ReviewView, said: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_MENTION.findall(said)))
    if len(names) > MENTIONS_MAX:
        message = f"the comment mentions {len(names)} members; at most {MENTIONS_MAX} are taken"
        raise Refused(message, code="invalid", field="text")
    for name in names:
        person = person_named(actor, name, item.fabric_name)
        if person is None:
            message = f"@{name[:60]} is no member of this workspace: write a member's name after the @"
            raise Refused(message, code="invalid", field="text")
        if not _reads(item, person):
            message = f"@{name[:60]} may not read this run: mention a member who may, or leave the @ out"
            raise Refused(message, code="invalid", field="text")
    return names


def _reads(item: ReviewView, person: Person) -> bool:
    return has(person.roles, Right.CONTENTS) or is_asked(build_review_rules(item), person)
