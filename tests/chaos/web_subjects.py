"""``python -m tests.chaos.web_subjects``: makes what the requests of a test are about, a line each: the name of a kind in, its ids out as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import django

from fabric.core.actor import Actor


def main() -> None:
    """Makes what is asked for until standard input closes. The first line that it says is a token and a fabric's name."""
    from fabric.core.scopes import Scope
    from fabric.services.tokens import token_create
    from fabric.services.workspaces import owner_actor

    actor = owner_actor()
    small, makes = makers(actor)
    secret = token_create(actor=actor, name="asks", scopes=tuple(Scope)).secret
    print(json.dumps({"token": secret, "fabric": small}), flush=True)
    for line in sys.stdin:
        print(json.dumps(makes[line.strip()]()), flush=True)


def makers(actor: Actor) -> tuple[str, Mapping[str, Callable[[], dict[str, str]]]]:
    """The name of a fabric, and what makes something of each kind."""
    from fabric import wiring
    from fabric.adapters.nudge import NullNudge
    from fabric.models import Escalation
    from fabric.selectors.escalations import escalations_open
    from fabric.services.control import run_pause
    from fabric.services.escalations import escalation_decide
    from fabric.services.fabrics import fabric_publish
    from fabric.services.runs import run_start
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
        question = escalations_open(actor, run)[0]
        return {"run": run, "question": question.id, "digest": question.digest}

    def answered() -> dict[str, str]:
        found = asking()
        escalation_decide(**ports, escalation_id=found["question"], digest=found["digest"], verb="approve", undo_s=60)
        return found

    def ticket() -> dict[str, str]:
        run = ran(actor, given_up).id
        return {"run": run, "question": Escalation.objects.get(run_id=run, item="ticket").id}

    return small, {
        "nothing": dict,
        "queued": queued,
        "talking": lambda: queued(talking),
        "paused": paused,
        "ended": lambda: {"run": ran(actor, small).id},
        "asking": asking,
        "answered": answered,
        "ticket": ticket,
    }


if __name__ == "__main__":
    django.setup()
    main()
