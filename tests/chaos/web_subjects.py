"""``python -m tests.chaos.web_subjects``: makes what the requests of a test are about, a line each: the name of a kind in, its ids out as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import django


def main() -> None:
    """Makes what is asked for until standard input closes. The first line that it says is a token and a fabric's name."""
    from fabric import wiring
    from fabric.adapters.nudge import NullNudge
    from fabric.selectors.escalations import escalations_open
    from fabric.services.control import run_pause
    from fabric.services.escalations import escalation_decide
    from fabric.services.fabrics import fabric_publish
    from fabric.services.runs import run_start
    from fabric.services.tokens import Scope, token_create
    from fabric.services.workspaces import owner_actor
    from tests.fabric.services.world import DOUBTFUL, SMALL, ran

    actor = owner_actor()
    small, doubtful = (fabric_publish(actor=actor, source=source).name for source in (SMALL, DOUBTFUL))
    ports: dict[str, Any] = {"store": wiring.store(), "nudge": NullNudge(), "actor": actor}

    def queued() -> dict[str, str]:
        return {"run": run_start(**ports, fabric=small, text="Why?").run_id}

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
        escalation_decide(**ports, escalation_id=found["question"], verb="approve", undo_s=60)
        return found

    makes: Mapping[str, Callable[[], dict[str, str]]] = {
        "nothing": dict,
        "queued": queued,
        "paused": paused,
        "ended": lambda: {"run": ran(actor, small).id},
        "asking": asking,
        "answered": answered,
    }
    secret = token_create(actor=actor, name="asks", scopes=tuple(Scope)).secret
    print(json.dumps({"token": secret, "fabric": small}), flush=True)
    for line in sys.stdin:
        print(json.dumps(makes[line.strip()]()), flush=True)


if __name__ == "__main__":
    django.setup()
    main()
