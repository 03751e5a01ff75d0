"""A program that has a run ask a review, tells it, and prints what became of each notification, on the database and with the settings that it is given.

`python -m tests.fabric.composition.outbox_scene` in the environment of an installation: four threads make and send at once, as four workers would.
"""

from __future__ import annotations

import json
import threading

import django

WORKERS = 4


def main() -> None:
    """Does it."""
    django.setup()
    from django.db import connection

    from fabric.composition import outbox
    from fabric.models import Duty, Notification
    from fabric.services.actors import owner_actor
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.worker.process.duties import DutyThread
    from tests.fabric.services.world import DOUBTFUL, ran

    actor = owner_actor()
    (tell, prune), *_ = outbox.duties()
    assert DutyThread([], "first").look(tell)
    fabric = fabric_publish(actor=actor, source=DOUBTFUL).name
    runs = [ran(actor, fabric).id for _ in range(2)]
    start, failed = threading.Barrier(WORKERS), []

    def work() -> None:
        start.wait()
        try:
            # Not by the duty's row, which would let one of them in: what it does must be right with all of them at it.
            outbox.notify()
        except Exception as error:  # noqa: BLE001 - Printed below.
            failed.append(repr(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    looked = [DutyThread([], "last").look(duty) for duty in (tell, prune)]
    told = sorted(Notification.objects.values_list("run_id", "told", "channel", "state", "attempts"))
    again = outbox.has_work()
    duties = sorted(Duty.objects.values_list("name", flat=True))
    print(
        json.dumps({"runs": runs, "told": told, "failed": failed, "looked": looked, "again": again, "duties": duties})
    )


if __name__ == "__main__":
    main()
