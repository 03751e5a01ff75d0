"""``python -m tests.chaos.web.subjects``: makes what the requests of a test are about, a line each: the name of a kind in, its ids out as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import django

from fabric.core.people.actor import Actor


def main() -> None:
    """Makes what is asked for until standard input closes. The first line that it says is a token and a fabric's name."""
    from fabric.core.people.scopes import Scope
    from fabric.services.actors import owner_actor
    from fabric.services.people.tokens import token_create

    actor = owner_actor()
    small, makes = makers(actor)
    secret = token_create(actor=actor, name="asks", scopes=tuple(Scope)).secret
    print(json.dumps({"token": secret, "fabric": small}), flush=True)
    for line in sys.stdin:
        print(json.dumps(makes[line.strip()]()), flush=True)


def makers(actor: Actor) -> tuple[str, Mapping[str, Callable[[], dict[str, str]]]]:
    """The name of a fabric, and what makes something of each kind."""
    from fabric.composition import engine as wiring
    from fabric.models import Review
    from fabric.selectors.reviews.lookup import list_open_reviews
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.services.reviews.decisions import decide_review
    from fabric.services.runs.control import run_pause
    from fabric.services.runs.start import run_start
    from fabric.worker.nudges.listener import NullNudge
    from tests.fabric.services.world import DOUBTFUL, GIVEN_UP, SMALL, TALKING, ran

    sources = (SMALL, DOUBTFUL, GIVEN_UP, TALKING)
    small, doubtful, given_up, talking = (fabric_publish(actor=actor, source=source).name for source in sources)
    ports: dict[str, Any] = {"store": wiring.store(), "nudge": NullNudge(), "actor": actor}

    def queued(fabric: str = small) -> dict[str, str]:
        return {"run": run_start(**ports, fabric=fabric, text="Why?").run_id}

    def paused() -> dict[str, str]:
        found = queued()
        run_pause(**ports, run_id=found["run"])
        return found

    def asking() -> dict[str, str]:
        run = ran(actor, doubtful).id
        review = list_open_reviews(actor, run)[0]
        return {"run": run, "review": review.id, "digest": review.digest}

    def answered() -> dict[str, str]:
        found = asking()
        decide_review(**ports, review_id=found["review"], digest=found["digest"], verb="approve", undo_s=60)
        return found

    def follow_up() -> dict[str, str]:
        run = ran(actor, given_up).id
        return {"run": run, "review": Review.objects.get(run_id=run, item="follow_up").id}

    return small, {
        "nothing": dict,
        "queued": queued,
        "talking": lambda: queued(talking),
        "paused": paused,
        "ended": lambda: {"run": ran(actor, small).id},
        "asking": asking,
        "answered": answered,
        "follow_up": follow_up,
    }


if __name__ == "__main__":
    django.setup()
    main()
