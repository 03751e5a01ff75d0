"""A program in which sixteen people go for the same reviews in one moment, on the database it is given, and which prints what came of it.

`python -m tests.fabric.services.reviews.racing_program REVIEWS [SCENE ...]` in the environment of an installation; without a name all of ``SCENES``.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import django

PEOPLE = 16
ROUNDS = 8
PATIENCE_S = 120


@dataclass
class Race:
    """An installation with sixteen people who are all asked, and runs that wait for them."""

    actor: Any
    people: list[Any]
    at_once: Callable[..., Any]

    def reviews(self, fabric: str, number: int) -> list[Any]:
        """Open reviews of so many runs that really wait."""
        from fabric.composition import engine as wiring
        from fabric.models import Run
        from fabric.runtime.ports.journal import Document
        from fabric.selectors.reviews.lookup import list_open_reviews
        from fabric.services.runs.start import run_start
        from fabric.worker.nudges.listener import NullNudge

        text, notes = "What do the notes say?", (Document("notes.md", "The budget of the project is 40 dollars."),)
        start = partial(run_start, store=wiring.store(), nudge=NullNudge(), fabric=fabric, text=text, documents=notes)
        ids = [start(actor=self.actor).run_id for _ in range(number)]
        self.rest(ids, lambda: Run.objects.filter(id__in=ids, state="waiting").count() == number)
        return [one for one in list_open_reviews(self.actor) if one.run_id in set(ids)]

    def rest(self, ids: list[str], done: Callable[[], bool]) -> None:
        """Hosts the runs here until it is so."""
        from fabric.composition import engine as wiring

        with wiring.local_engine() as engine:
            for run_id in ids:
                engine.offer(run_id)
            waiting = threading.Event()
            for _ in range(PATIENCE_S * 10):
                if done():
                    return
                waiting.wait(0.1)
        raise AssertionError("the runs did not come to rest")

    def all_together(self, reviews: list[Any], act: Callable[[Any, Any], Any]) -> list[list[Any]]:
        """Return what each person was told of each review: all of them go for one review at the same moment, one review after the other."""
        from django.db import connection

        from fabric.services.errors import Refused

        begin = threading.Barrier(len(self.people))

        def goes(person: Any) -> list[Any]:
            told = []
            for review in reviews:
                begin.wait(PATIENCE_S)
                try:
                    told.append(act(person, review))
                except Refused as refused:
                    told.append(refused)
                except Exception as error:
                    begin.abort()
                    raise AssertionError(f"{person.name} was told: {error!r}") from error
                finally:
                    connection.close()  # As at the end of a request: the pool has fewer than there are people.
            return told

        by_person = self.at_once([partial(goes, person) for person in self.people])
        return [list(column) for column in zip(*by_person, strict=True)]


def claims(race: Race, fabrics: dict[str, str], _number: int) -> Any:
    """All claim, then all take over what has lapsed: how many got it, and what the row counts."""
    from fabric.models import ReviewAssignment
    from fabric.services.reviews.assignments import Claimed, review_claim

    reviews = race.reviews(fabrics["doubtful"], ROUNDS)
    act = lambda person, one: review_claim(actor=person, review_id=one.id)  # noqa: E731 - It is said twice.
    found = []
    for lease in (1, 2):
        told = race.all_together(reviews, act)
        found.append([sum(isinstance(one, Claimed) for one in column) for column in told])
        holders = dict(ReviewAssignment.objects.values_list("review", "holder"))
        for review, column in zip(reviews, told, strict=True):
            (taken,) = [one for one in column if isinstance(one, Claimed)]
            assert holders[review.id] == taken.assignment.holder
        assert {*ReviewAssignment.objects.values_list("lease", flat=True)} == {lease}
        ReviewAssignment.objects.update(lease_until=1)
    return found


def nexts(race: Race, fabrics: dict[str, str], _number: int) -> Any:
    """All ask for the next one: how many got one, how many different ones those are, and how many reviews there were."""
    from fabric.models import Review, ReviewAssignment
    from fabric.services.reviews.assignments import review_claim_next

    ReviewAssignment.objects.all().delete()
    Review.objects.filter(decided_at=None).update(decided_at=1, verb="reject", decided_by="nobody")
    found = []
    for number in (PEOPLE, PEOPLE - 5):
        race.reviews(fabrics["doubtful"], number)
        told = race.at_once([partial(review_claim_next, actor=person) for person in race.people])
        taken = [one.assignment.review_id for one in told if one is not None]
        found.append([len(taken), len(set(taken)), number])
        Review.objects.filter(decided_at=None).update(decided_at=1, verb="reject", decided_by="nobody")
    return found


def decisions(race: Race, fabrics: dict[str, str], number: int) -> Any:
    """All answer every review, half of them otherwise: decisions, refusals that name who was first, and runs that went on."""
    from fabric.composition import engine as wiring
    from fabric.models import Event, Review, Run
    from fabric.services.errors import Refused
    from fabric.services.reviews.decisions import DecisionTaken, decide_review
    from fabric.worker.nudges.listener import NullNudge

    reviews = race.reviews(fabrics["doubtful"], number)
    answer = partial(decide_review, store=wiring.store(), nudge=NullNudge(), message="Because.")
    verbs = {person.name: ("approve", "reject")[place % 2] for place, person in enumerate(race.people)}
    told = race.all_together(
        reviews,
        lambda person, one: answer(actor=person, review_id=one.id, verb=verbs[person.name], digest=one.digest),
    )
    ids = [one.run_id for one in reviews]
    race.rest(ids, lambda: Run.objects.filter(id__in=ids, ended_at__isnull=False).count() == number)
    by = dict(Review.objects.filter(run_id__in=ids).values_list("id", "decided_by"))
    recorded = Counter(sum(isinstance(one, DecisionTaken) for one in column) for column in told)
    named = [
        f" {by[review.id]} at 20" in one.message and one.code == "conflict"
        for review, column in zip(reviews, told, strict=True)
        for one in column
        if isinstance(one, Refused)
    ]
    decided = Event.objects.filter(run_id__in=ids, kind="review_decided").count()
    return [sorted(recorded.items()), decided, len(named), all(named)]


def pairs(race: Race, fabrics: dict[str, str], number: int) -> Any:
    """All approve where two have to agree, and all once more: answers that were recorded each time, approvals, decisions, and whether by two."""
    from fabric.composition import engine as wiring
    from fabric.models import Inbox, Review, Run
    from fabric.services.reviews.decisions import DecisionTaken, decide_review
    from fabric.worker.nudges.listener import NullNudge

    reviews = race.reviews(fabrics["watched"], min(number, ROUNDS))
    answer = partial(decide_review, store=wiring.store(), nudge=NullNudge(), verb="approve")
    ids, recorded = [one.run_id for one in reviews], []
    for _ in range(2):
        told = race.all_together(reviews, lambda person, one: answer(actor=person, review_id=one.id, digest=one.digest))
        fresh = [sum(isinstance(one, DecisionTaken) and one.created for one in column) for column in told]
        recorded.append(sorted(Counter(fresh).items()))
        race.rest(ids, lambda: not Inbox.objects.filter(run_id__in=ids, consumed_seq=None).exists())
    race.rest(ids, lambda: Run.objects.filter(id__in=ids, state="completed").count() == len(ids))
    ends = Review.objects.filter(run_id__in=ids).values_list("agreed", "decided_by", "verb")
    two = [len({*agreed.split(), by}) == 2 and verb == "approve" for agreed, by, verb in ends]
    return [recorded, len(two), all(two)]


SCENES = (claims, nexts, decisions, pairs)


def main() -> None:
    """Race, then tell."""
    from fabric.services.actors import owner_actor
    from fabric.services.fabrics.revisions import fabric_publish
    from tests.fabric.services.at_once import at_once
    from tests.fabric.services.world import DOUBTFUL, WATCHED, published_by_two
    from tests.people import member

    actor, number, wanted = owner_actor(), int(sys.argv[1]), sys.argv[2:]
    roles = ("owner", "reviewer")
    names = [f"person-{place:02}" for place in range(PEOPLE)]
    for name in names:
        member(name, *roles)
    people = [replace(actor, name=name, roles=frozenset(roles)) for name in names]
    race = Race(actor, people, at_once)
    published = fabric_publish(actor=actor, source=DOUBTFUL), published_by_two(actor, WATCHED)
    fabrics = {one.name: one.name for one in published}
    scenes = [scene for scene in SCENES if scene.__name__ in wanted or not wanted]
    print(json.dumps({scene.__name__: scene(race, fabrics, number) for scene in scenes}))


if __name__ == "__main__":
    django.setup()
    main()
