"""``python -m tests.chaos.processes.starter``: starts and cancels runs by the services, as a web server does, in a process that can be killed.

A line of JSON a request, a line an answer: ``{"publish": source}``; ``{"start": key}`` -> ``{"key", "run"}``; ``{"cancel": run}``;
``{"approve": review}``. What went wrong is ``{"key", "error"}``; the caller asks again, under the same key.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

from tests.chaos.processes.effects import ASK, FAILURE

IN_A_SESSION = 16
"""So many runs share the budget of a session, so that workers ask for grants again and again."""
FAIL, ASKS = "fail-", "ask-"
"""Runs whose start keys begin with it fail when they have done everything; ask a person before they do something that stays done."""
SAYS = {FAIL: FAILURE, ASKS: ASK}
"""What the request of such a run says."""


def main() -> int:
    """Serves until standard input closes."""
    django.setup()
    from django.db import close_old_connections

    from fabric.core.people.actor import Actor
    from fabric.services.actors import workspace_default

    actor: Actor | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        key = next(iter(asked.values())) if "publish" not in asked else "publish"
        close_old_connections()
        try:
            actor = actor or Actor("chaos", workspace_default(), "system")
            said = {"key": key, **_done(actor, asked)}
        except Exception as error:  # noqa: BLE001 - Whatever it is, the other side asks again.
            said = {"key": key, "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(said), flush=True)
    return 0


def session_of(key: str) -> str:
    """The session of the run with this start key: that of the runs numbered next to it."""
    number = key.rpartition("-")[2]
    return f"session-{int(number) // IN_A_SESSION}" if number.isdecimal() else "session"


def _words(key: str) -> list[str]:
    return [words for begins, words in SAYS.items() if key.startswith(begins)]


def _done(actor: Any, asked: dict[str, str]) -> dict[str, Any]:
    from fabric.composition import engine as wiring
    from fabric.runtime.ports.journal import Document
    from fabric.selectors.reviews.lookup import get_review
    from fabric.services.actors import owner_actor
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.services.reviews.decisions import decide_review
    from fabric.services.runs.control import run_cancel
    from fabric.services.runs.start import run_start

    if "publish" in asked:
        return {"fabric": fabric_publish(actor=actor, source=asked["publish"], origin="chaos").name}
    if "cancel" in asked:
        run_cancel(
            store=wiring.store(), nudge=wiring.nudge(), actor=actor, run_id=asked["cancel"], reason="the drill ends"
        )
        return {"cancelled": asked["cancel"]}
    if "approve" in asked:
        decide_review(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=owner_actor(),
            review_id=asked["approve"],
            verb="approve",
            digest=get_review(owner_actor(), asked["approve"]).digest,
        )
        return {"approved": asked["approve"]}
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        actor=actor,
        fabric="chaos",
        text=" ".join(["What do the notes say? Book a room.", *_words(asked["start"])]),
        documents=(Document("notes.md", "The bridge is 40 metres long. It was built in 1931."),),
        tier="batch",
        session_key=session_of(asked["start"]),
        start_key=asked["start"],
    )
    return {"run": started.run_id}


if __name__ == "__main__":
    raise SystemExit(main())
