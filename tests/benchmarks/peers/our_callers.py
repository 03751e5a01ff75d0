"""flow5 here, started as a web server starts runs: ``python -m tests.benchmarks.peers.our_callers``, beside a worker of the same installation.

Each run is started by the service, with a connection of the pool as a request has it, and woken as in production. Callers hear of its end by what the
worker tells of journals, as pages do.
"""

from __future__ import annotations

import json
import threading
import time

import celery
import django
import psycopg

from tests.benchmarks.peers.serving import on_threads, serve
from tests.benchmarks.throughput.answers import REQUEST
from tests.benchmarks.throughput.spec import SPEC

WAIT_S = 60.0
AGAIN_S = 1.0
"""What is told may be lost: then the next look comes so much later."""
FOLD_S = 0.004
"""Messages of so short a time are one look, as a page's is (docs/design.md): hundreds of commits arrive in a second."""
OVER = "SELECT id FROM fabric_run WHERE id = ANY(%s) AND state = ANY(%s)"


class Ends:
    """Has callers wait until their runs are over."""

    def __init__(self) -> None:
        from fabric.composition import engine as wiring

        self._waiting: dict[str, threading.Event] = {}
        self._told = threading.Event()
        self._listener = wiring.listener(lambda nudged: self._told.set(), "told")
        self._listener.start()
        threading.Thread(target=self._look, name="bench-ends", daemon=True).start()

    def wait(self, run_id: str) -> None:
        """Returns when the run is over. TimeoutError after a minute."""
        over = self._waiting.setdefault(run_id, threading.Event())
        self._told.set()  # It may be over before a thread waits.
        if not over.wait(WAIT_S):
            raise TimeoutError(f"run {run_id} did not end within {WAIT_S:.0f} s")

    def _look(self) -> None:
        from fabric.composition import engine as wiring
        from fabric.core.values.flow import TERMINAL

        ended = sorted(state.value for state in TERMINAL)
        with psycopg.connect(wiring.dsn(), autocommit=True) as connection:
            while True:
                self._told.wait(AGAIN_S)
                time.sleep(FOLD_S)
                self._told.clear()
                if asked := list(self._waiting):
                    for (run_id,) in connection.execute(OVER, [asked, ended]):
                        self._waiting.pop(run_id).set()


def main() -> None:
    """Serves until standard input closes."""
    django.setup()
    from django.db import connection

    from fabric.composition import engine as wiring
    from fabric.core.people.actor import Actor
    from fabric.services.actors import workspace_default
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.services.runs.start import run_start

    actor = Actor("bench", workspace_default(), "system")
    # JSON is YAML.
    fabric = fabric_publish(
        actor=actor, source=json.dumps(SPEC.model_dump(mode="json", exclude_unset=True)), origin="bench"
    ).name
    ends = Ends()

    def one() -> None:
        try:
            started = run_start(
                store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=fabric, text=REQUEST, tier="batch"
            )
        finally:
            connection.close()  # Back to its pool, as after a request.
        ends.wait(started.run_id)

    serve(f"celery {celery.__version__}", on_threads(one))


if __name__ == "__main__":
    main()
