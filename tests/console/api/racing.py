"""A program that calls the API from several threads at once, on the database it is given, and prints what came of it.

`python -m tests.console.api.racing` in the environment of an installation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import django

ROUNDS = 4
THREADS = 4


def at_once(act: Callable[[], Any]) -> list[Any]:
    """What ``act`` gave, called by several threads in the same moment."""
    from django.db import connection

    start, given = threading.Barrier(THREADS), []

    def run() -> None:
        start.wait()
        try:
            given.append(act())
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


def main() -> None:
    """Race, then tell."""
    from django.test import Client

    from fabric.models import Inbox, Run
    from fabric.services.fabrics import fabric_publish
    from fabric.services.tokens import Scope, token_create
    from fabric.services.workspaces import owner_actor
    from tests.fabric.services.world import DOUBTFUL, SMALL, ran

    actor = owner_actor()
    names = [fabric_publish(actor=actor, source=source).name for source in (SMALL, DOUBTFUL)]
    secret = token_create(actor=actor, name="race", scopes=tuple(Scope)).secret

    def post(path: str, body: dict[str, str], **headers: str) -> Any:
        client = Client(HTTP_HOST="127.0.0.1", raise_request_exception=False)
        sent = {"Authorization": f"Bearer {secret}", **headers}
        answer = client.post(f"/api/v1/{path}", json.dumps(body), "application/json", headers=sent)
        return answer.status_code, answer.json()

    told: dict[str, Any] = {"starts": [], "cancels": [], "decisions": []}
    for number in range(ROUNDS):
        asked = {"fabric": names[0], "text": "Why?"}
        starts = at_once(lambda: post("runs", asked, **{"Idempotency-Key": f"k-{number}"}))  # noqa: B023
        told["starts"].append(sorted(status for status, _ in starts))
        (run_id,) = {body["id"] for _, body in starts}
        cancels = at_once(lambda: post(f"runs/{run_id}/cancel", {}))  # noqa: B023
        told["cancels"].append(sorted((status, body["recorded"]) for status, body in cancels))
    told["runs"] = Run.objects.count()
    waiting = ran(actor, names[1])
    (question,) = (
        Client(HTTP_HOST="127.0.0.1")
        .get("/api/v1/escalations", headers={"Authorization": f"Bearer {secret}"})
        .json()["escalations"]
    )
    answer = {"verb": "approve", "digest": question["digest"]}
    decisions = at_once(lambda: post(f"escalations/{question['id']}/decision", answer))
    told["decisions"] = sorted((status, body["recorded"]) for status, body in decisions)
    told["answers"] = Inbox.objects.filter(run_id=waiting.id, input_id__startswith="decision:").count()
    print(json.dumps(told))


if __name__ == "__main__":
    django.setup()
    main()
