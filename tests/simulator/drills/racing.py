"""A program in which several ask at once, on the database of the installation that it is given; it prints what came of it.

`python -m tests.simulator.drills.racing SCENE` in the environment of an installation.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import django

PATIENCE_S = 60.0
ROUNDS, THREADS = 5, 6
BLOCKED_S = 1.0
"""So long a caller waits that waits for a lock; one that does not is done long before."""


def published() -> tuple[Any, str]:
    """The owner, and a fabric of theirs."""
    from fabric.services.actors import owner_actor, owner_ensure
    from fabric.services.fabrics.revisions import fabric_publish
    from tests.fabric.services.world import SMALL

    owner_ensure()
    actor = owner_actor()
    return actor, fabric_publish(actor=actor, source=SMALL).name


def drill_stop() -> Any:
    """The drill stop is pulled while a caller has asked for drills and not committed yet: how many it ended, and how many are left."""
    from django.db import connection, transaction

    from simulator.drills.models.tables import OPEN_STATUSES, Drill
    from simulator.drills.services.drill_stop import pull_drill_stop
    from simulator.drills.services.drills import drill_ask

    actor, fabric = published()
    inserted, commit, ended = threading.Event(), threading.Event(), []

    def ask() -> None:
        with transaction.atomic():
            drill_ask(actor=actor, fabric=fabric, cells="all")
            inserted.set()
            commit.wait(PATIENCE_S)
        connection.close()

    def pull() -> None:
        ended.append(pull_drill_stop(actor=actor, reason="Enough."))
        connection.close()

    asking, pulling = threading.Thread(target=ask), threading.Thread(target=pull)
    asking.start()
    inserted.wait(PATIENCE_S)
    pulling.start()
    pulling.join(BLOCKED_S)
    commit.set()
    asking.join(PATIENCE_S)
    pulling.join(PATIENCE_S)
    return {"ended": ended, "left": Drill.objects.filter(status__in=OPEN_STATUSES).count()}


def schedule() -> Any:
    """A schedule is due, and several workers look at the same moment: how many asked, batches, drills, and lines in the audit stream; five times over."""
    from django.db import connection

    from fabric.models import AuditLine
    from fabric.worker.process.duties import database_us
    from simulator.drills.models.tables import Drill, Schedule, Status
    from simulator.drills.schedules.services import schedule_create, schedules_ask

    actor, fabric = published()
    schedule_create(actor=actor, fabric=fabric, cron="0 3 * * *")
    told = []
    for _ in range(ROUNDS):
        Schedule.objects.update(next_at=database_us() - 1)
        Drill.objects.all().delete()
        lines = AuditLine.objects.count()
        asked: list[int] = []
        together = threading.Barrier(THREADS)

        def look(asked: list[int] = asked, together: threading.Barrier = together) -> None:
            connection.ensure_connection()
            together.wait(PATIENCE_S)
            asked.append(schedules_ask())
            connection.close()

        looking = [threading.Thread(target=look) for _ in range(THREADS)]
        for one in looking:
            one.start()
        for one in looking:
            one.join(PATIENCE_S)
        open_now = Drill.objects.filter(status=Status.QUEUED)
        batches = open_now.values("batch").distinct().count()
        said = Schedule.objects.get().last_said
        told.append([sorted(asked), batches, open_now.count(), AuditLine.objects.count() - lines, said])
    return told


SCENES = {"drill_stop": drill_stop, "schedule": schedule}

if __name__ == "__main__":
    django.setup()
    print(json.dumps(SCENES[sys.argv[1]]()))
