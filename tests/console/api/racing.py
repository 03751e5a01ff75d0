"""A program that asks the same installation for things from several threads in one moment, on the database it is given, and prints what came of it.

`python -m tests.console.api.racing [SCENE ...]` in the environment of an installation; without a name all of ``SCENES``, and ``crowd`` by its name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import django

ROUNDS = 2
THREADS = 4
CROWD = 64


@dataclass
class Race:
    """An installation with a token that may do everything, and what is tried on it."""

    actor: Any
    fabric: str
    waiting: str
    """A fabric whose runs wait for a person."""
    secret: str

    def post(self, path: str, body: dict[str, str], **headers: str) -> Any:
        """Status and body of one request of a program."""
        from django.test import Client

        client = Client(HTTP_HOST="127.0.0.1", raise_request_exception=False)
        sent = {"Authorization": f"Bearer {self.secret}", **headers}
        answer = client.post(f"/api/v1/{path}", json.dumps(body), "application/json", headers=sent)
        return answer.status_code, answer.json()

    def start(self, key: str, text: str = "Why?") -> Any:
        """A start under a key."""
        return self.post("runs", {"fabric": self.fabric, "text": text}, **{"Idempotency-Key": key})

    def review(self) -> Any:
        """An open review of a run that really waits."""
        from fabric.selectors.reviews.lookup import list_open_reviews
        from tests.fabric.services.world import ran

        return list_open_reviews(self.actor, ran(self.actor, self.waiting).id)[0]

    def answers(self, review: Any) -> int:
        """How many answers to a review have reached its run."""
        from fabric.models import Inbox

        return Inbox.objects.filter(run_id=review.run_id, input_id__startswith="decision:").count()

    def decide(self, review: Any, verb: str, message: str = "") -> Any:
        """An answer."""
        body = {"verb": verb, "digest": review.digest, "message": message}
        return self.post(f"reviews/{review.id}/decision", body)


def starts(race: Race, at_once: Callable[..., Any], number: int) -> Any:
    """The same start from all threads: the statuses, and how many runs."""
    told = at_once([partial(race.start, f"same-{number}")] * THREADS)
    return sorted(status for status, _ in told), len({body["id"] for _, body in told})


def other_starts(race: Race, at_once: Callable[..., Any], number: int) -> Any:
    """Two requests under one key: those who asked what was started, and those who did not."""
    texts = ["Why?", "Whether?"] * (THREADS // 2)
    told = at_once([partial(race.start, f"other-{number}", text) for text in texts])
    (title,) = {body["title"] for status, body in told if status == 201}
    return sorted((status, text == title) for text, (status, _) in zip(texts, told, strict=True))


def cancels(race: Race, at_once: Callable[..., Any], number: int) -> Any:
    """The same cancellation from all threads."""
    _, run = race.start(f"cancelled-{number}")
    told = at_once([partial(race.post, f"runs/{run['id']}/cancel", {})] * THREADS)
    return sorted((status, body["recorded"]) for status, body in told)


def decisions(race: Race, at_once: Callable[..., Any], _number: int) -> Any:
    """The same answer from all threads."""
    review = race.review()
    told = at_once([partial(race.decide, review, "approve")] * THREADS)
    return sorted((status, body["recorded"]) for status, body in told), race.answers(review)


def other_decisions(race: Race, at_once: Callable[..., Any], _number: int) -> Any:
    """A different answer from each: the statuses, whether the others are told of the first, and how many answers there are."""
    review = race.review()
    verbs = ["approve", "reject"] * (THREADS // 2)
    told = at_once([partial(race.decide, review, verb, f"said by {n}") for n, verb in enumerate(verbs)])
    (first,) = {body["verb"] for status, body in told if status == 200}
    named = {(body["answer"]["verb"], body["answer"]["decided_by"]) for status, body in told if status == 409}
    return sorted(status for status, _ in told), named == {(first, "owner")}, race.answers(review)


def unread_decisions(race: Race, at_once: Callable[..., Any], _number: int) -> Any:
    """Four people who have all read a review without an answer before any of them writes: who was refused, and how many answers there are."""
    from dataclasses import replace

    from fabric.composition import engine as wiring
    from fabric.services.errors import Refused
    from fabric.services.reviews.decisions import decide_review
    from fabric.worker.nudges.listener import NullNudge
    from tests.fabric.services.at_once import Together

    review = race.review()
    together: Any = Together(wiring.store(), THREADS)
    told = at_once(
        [
            partial(
                decide_review,
                store=together,
                nudge=NullNudge(),
                actor=replace(race.actor, name=f"person-{n}"),
                review_id=review.id,
                digest=review.digest,
                verb=("approve", "reject")[n % 2],
                message="No.",
            )
            for n in range(THREADS)
        ]
    )
    return sorted(one.code for one in told if isinstance(one, Refused)), race.answers(review)


def revocation(race: Race, at_once: Callable[..., Any], number: int) -> Any:
    """A token that is revoked while it is used: each start was done or refused, and afterwards none is."""
    from fabric.core.people.scopes import Scope
    from fabric.models import Run
    from fabric.services.people.tokens import token_create, token_revoke

    name = f"short-{number}"
    short = Race(
        race.actor, race.fabric, race.waiting, token_create(actor=race.actor, name=name, scopes=tuple(Scope)).secret
    )
    before = Run.objects.count()
    acts: list[Callable[[], Any]] = [partial(short.start, f"{name}-{n}") for n in range(THREADS)]
    told = at_once([*acts, partial(token_revoke, actor=race.actor, name=name)])[:-1]
    done = [status for status, _ in told if status == 201]
    odd = [status for status, _ in told if status not in (201, 401)]
    after, _ = short.start(f"{name}-late")
    return odd, Run.objects.count() - before == len(done), after


def crowd(race: Race, at_once: Callable[..., Any], number: int) -> Any:
    """Sixty-four times the same start in one moment: the statuses, the runs there are, how many different bodies; then what another start under the key gets."""
    from fabric.models import Run

    key = f"crowd-{number}"
    told = at_once([partial(race.start, key)] * CROWD)
    bodies = {json.dumps(body, sort_keys=True) for _, body in told}
    other, refusal = race.start(key, "Whether?")
    runs = Run.objects.filter(start_key=key).count()
    return sorted(status for status, _ in told), runs, len(bodies), other, "Idempotency-Key" in refusal["detail"]


SCENES = (starts, other_starts, cancels, decisions, other_decisions, unread_decisions, revocation)


def main() -> None:
    """Race, then tell."""
    from fabric.core.people.scopes import Scope
    from fabric.models import Run
    from fabric.services.actors import owner_actor
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.services.people.tokens import token_create
    from tests.fabric.services.at_once import at_once
    from tests.fabric.services.world import DOUBTFUL, SMALL

    actor = owner_actor()
    names = [fabric_publish(actor=actor, source=source).name for source in (SMALL, DOUBTFUL)]
    secret = token_create(actor=actor, name="race", scopes=tuple(Scope)).secret
    race = Race(actor, names[0], names[1], secret)
    named = [scene for scene in (*SCENES, crowd) if scene.__name__ in sys.argv[1:]]
    told = {scene.__name__: [scene(race, at_once, number) for number in range(ROUNDS)] for scene in named or SCENES}
    print(json.dumps({**told, "runs": Run.objects.filter(start_key__startswith="same-").count()}))


if __name__ == "__main__":
    django.setup()
    main()
