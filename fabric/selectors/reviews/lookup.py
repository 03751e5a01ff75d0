"""Reads the open reviews, one review with its content for a person, and the people who may get it next."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet

from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import Person, is_asked, list_reviewers
from fabric.core.people.roles import held_in, roles_at
from fabric.core.texts.text import clean_text
from fabric.core.values.taxonomy import Tier
from fabric.models import Member, Review
from fabric.runtime.ports.batch_parts import LISTS, list_names
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.reach import match_visible
from fabric.selectors.reviews.eligibility import build_review_rules, may_answer
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.families import list_descendants

OPEN_MAX = 500

_COLUMNS = (
    *(
        "id",
        "workspace_id",
        "run_id",
        "run__title",
        "run__state",
        "run__fabric__name",
        "run__tier",
        "run__revision_id",
        "step_id",
        "item",
        "reason",
        "failure_type",
        "stage",
    ),
    *(
        "required_role",
        "verbs",
        "digest",
        "opened_at",
        "due_at",
        "content",
        "decided_at",
        "verb",
        "decided_by",
        "by_system",
    ),
    *("approvals", "proposed_by", "remind_at", "onward_at", "reminded", "onward", "score", "tau", *LISTS),
)


def list_open_reviews(
    actor: Actor,
    run_id: str | None = None,
    *,
    family: bool = False,
    limit: int = OPEN_MAX,
    after: str | None = None,
) -> list[ReviewView]:
    """Return the workspace's open reviews, or one run's, the most urgent first; at most 500. ``after``: the cursor
    of the last one seen.

    ``family``: also those of its child runs, of teams and slices, at every level. Raises Refused invalid for an
    unknown cursor.
    """
    rows = Review.objects.filter(match_visible(actor, Review), decided_at__isnull=True)
    if run_id is not None:
        named = clean_text(run_id)[0]
        rows = rows.filter(run_id__in=[named, *list_descendants(actor, named)] if family else [named])
    if after is not None:
        rows = rows.filter(build_cursor_condition(after, "due_at"))
    return list_views(actor, rows.order_by("due_at", "id"), max(1, min(limit, OPEN_MAX)))


def list_named_reviews(actor: Actor, ids: Collection[str]) -> list[ReviewView]:
    """Return these reviews, open or decided; unknown ones are left out."""
    rows = Review.objects.filter(match_visible(actor, Review), id__in=ids)
    return list_views(actor, rows.order_by("due_at", "id"))


def list_views(actor: Actor, rows: QuerySet[Review], most: int | None = None) -> list[ReviewView]:
    """Return views of rows for an actor, in their order; at most ``most``."""
    return [_view(actor, row) for row in rows.values(*_COLUMNS)[:most]]


def get_review(actor: Actor, review_id: str) -> ReviewView:
    """Return one review, open or decided. Raises Refused not_found."""
    named = clean_text(review_id)[0]
    row = Review.objects.filter(match_visible(actor, Review), id=named).values(*_COLUMNS).first()
    if row is None:
        message = f"there is no review {review_id[:80]!r} in this workspace; look at the open ones"
        raise Refused(message, code="not_found", field="review")
    return _view(actor, row)


def _view(actor: Actor, row: dict[str, Any]) -> ReviewView:
    own = {name: row[name] for name in _COLUMNS if "__" not in name}
    own |= {name: list_names(row[name]) for name in LISTS}
    own["verbs"] = tuple(verb for verb in row["verbs"].split(",") if verb)
    own["given"] = json.loads(bytes(own.pop("content")) or b"{}")
    run = {"run_title": row["run__title"], "run_state": row["run__state"], "fabric_name": row["run__fabric__name"]}
    run["tier"] = row["run__tier"]
    run["revision_id"] = row["run__revision_id"]
    item = ReviewView(**own, **run)
    if may_read(actor, item.fabric_name) or may_answer(item, actor):
        return replace(item, reason=line_for(item.reason, reads=True))
    title = title_for(item.run_title, reads=False)
    return replace(item, reads=False, reason=line_for(item.reason, reads=False), run_title=title)


PEOPLE_MAX = 500
"""Largest number of members that are read."""


def person_named(actor: Actor, name: str, fabric: str) -> Person | None:
    """Return a member of the actor's workspace who can sign in, with the present roles at a fabric. None: no member has
    that name.
    """
    roles = _people(actor).filter(name=clean_text(name)[0]).values_list("roles", flat=True).first()
    return None if roles is None else Person(name=name, roles=roles_at(held_in(roles), fabric))


def list_receivers(actor: Actor, item: ReviewView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the other people who may answer a review, by name, and the roles of such people. One statement."""
    asked = build_review_rules(item)
    named = set(list_reviewers(asked))
    people: list[str] = []
    found: set[str] = set()
    for name, roles in _people(actor).order_by("name").values_list("name", "roles")[:PEOPLE_MAX]:
        here = roles_at(held_in(roles), item.fabric_name)
        found |= named & here
        if name != actor.name and is_asked(asked, Person(name=name, roles=here)):
            people.append(name)
    return tuple(people), tuple(sorted(found))


def edit_problem(actor: Actor, item: ReviewView) -> str:
    """Return the reason why an edit would lead nowhere: it needs a second person's approval, and no other is asked.
    Empty: it leads on.
    """
    if item.tier != Tier.HIGH_STAKES and item.approvals < 2:
        return ""
    if any(name not in item.barred for name in list_receivers(actor, item)[0]):
        return ""
    whom = ", ".join(list_reviewers(build_review_rules(item)))
    *others, last = (verb for verb in item.verbs if verb != "edit")
    return f"an edit needs a second person's approval here, and only {actor.name} may give it: {', '.join(others)} or {last}, or add a second reviewer ({whom})"


def _people(actor: Actor) -> QuerySet[Member]:
    return Member.objects.filter(
        workspace_id=actor.workspace_id, removed_at__isnull=True, service=False, user__is_active=True
    )
