"""Runs the parts of a worker process besides Celery's. It starts an engine as soon as it can, watches it, and does its
share of the duties.
"""

from __future__ import annotations

import logging
import os
import threading

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from fabric.composition import outbox
from fabric.composition.engine import Engine, clock, nudge, signer, store
from fabric.composition.models import provider_names
from fabric.services.audit.checkpoints import audit_seal, audit_waits, checkpoints_make
from fabric.services.audit.folds import folds_flush, folds_wait
from fabric.services.audit.retention import audit_retain, audit_rules_wanted
from fabric.services.budgets.caps import grants_prune, grants_to_prune
from fabric.services.drafts.scheduled_duty import publications_duty
from fabric.services.installation.retention import retention_apply, retention_wanted
from fabric.services.memories.retention import memories_tidy, values_held
from fabric.services.models.breakers import guard_changes_prune, guard_changes_to_prune
from fabric.services.runs.jobs.actions import RunPorts
from fabric.services.runs.jobs.steps import jobs_advance, jobs_wait
from fabric.services.runs.stop_work import stops_carry_out
from fabric.services.runs.stops import are_stops_due
from fabric.worker.process.duties import DutySpec, DutyThread, database_us
from fabric.worker.watchdog import Watchdog, map_threads

log = logging.getLogger(__name__)
AGAIN_S = 2.0
"""Seconds until a worker tries again to start its engine."""
AGAIN_MAX_S = 60.0
"""Largest pause between two tries in seconds, where the configuration is at fault: each pause is twice as long."""
CHECKPOINT_S = 300.0
DAY_S = 86_400.0
STOPS_S = 2.0
"""Longest time until a stop of new runs comes to the runs that go on, in seconds."""
STARTING_S = 20.0
"""Seconds that a stopping worker waits for its engine's start to finish, which a silent database may hold up."""


def duties() -> tuple[DutySpec, ...]:
    """Return the duties of workers besides runs, each done by one of them at a time."""
    folds = DutySpec(name="folds", look_s=60.0, every_s=0.0, lease_s=60.0, wanted=folds_wait, act=folds_flush)
    seal = DutySpec(name="seal", look_s=10.0, every_s=0.0, lease_s=60.0, wanted=audit_waits, act=audit_seal)
    checkpoint = DutySpec(
        name="checkpoint",
        look_s=CHECKPOINT_S,
        every_s=CHECKPOINT_S / 2,
        lease_s=600.0,
        wanted=lambda: True,
        act=lambda: checkpoints_make(signer=signer(), folder=settings.FABRIC_CHECKPOINTS),
    )
    retention = DutySpec(
        name="retention", look_s=3_600.0, every_s=DAY_S, lease_s=DAY_S, wanted=retention_wanted, act=retention_apply
    )
    cut = DutySpec(
        name="audit_retention",
        look_s=3_600.0,
        every_s=DAY_S,
        lease_s=3_600.0,
        wanted=audit_rules_wanted,
        act=lambda: audit_retain(signer=signer()),
    )
    prune = DutySpec(
        name="grants", look_s=3_600.0, every_s=DAY_S, lease_s=3_600.0, wanted=grants_to_prune, act=grants_prune
    )
    changes = DutySpec(
        name="guard_changes",
        look_s=3_600.0,
        every_s=DAY_S,
        lease_s=3_600.0,
        wanted=guard_changes_to_prune,
        act=guard_changes_prune,
    )
    memories = DutySpec(
        name="memories", look_s=3_600.0, every_s=DAY_S, lease_s=3_600.0, wanted=values_held, act=memories_tidy
    )
    stops = DutySpec(
        name="stops",
        look_s=STOPS_S,
        every_s=0.0,
        lease_s=300.0,
        wanted=lambda: are_stops_due(database_us()),
        act=lambda: stops_carry_out(store(), nudge()),
    )
    publications = publications_duty(provider_names)
    return stops, publications, folds, seal, checkpoint, retention, cut, prune, changes, memories


def job_duties() -> tuple[DutySpec, ...]:
    """Return the duty that carries out run jobs. It has a thread of its own: a long job must not delay the others."""
    ports = RunPorts(store=store(), nudge=nudge(), now=clock().now)
    jobs = DutySpec(
        name="run_jobs", look_s=1.0, every_s=0.0, lease_s=60.0, wanted=jobs_wait, act=lambda: jobs_advance(ports)
    )
    return (jobs,)


class EngineWorker:
    """The engine of a worker process, as soon as it has one. A worker without an engine waits for it; it never exits
    for the lack of one.
    """

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.threads: tuple[DutyThread, ...] = ()
        """Threads of the duties: those of this process, then those that wait for others' servers."""
        self.watchdog: Watchdog | None = None
        self._ending = threading.Event()
        self._starting: threading.Thread | None = None

    def start(self) -> None:
        """Start the engine on a thread. It waits for the data directory's lock, and tries again when the database is
        away.
        """
        self._starting = threading.Thread(target=self._start, name="fabric-start", daemon=True)
        self._starting.start()

    def _start(self) -> None:
        told, again_s = "", AGAIN_S
        while self.engine is None and not self._ending.is_set():
            try:
                engine = Engine()
                engine.start(until=self._ending)
            except ImproperlyConfigured as error:
                # A wrong configuration does not mend itself: logged once.
                if str(error) != told:
                    log.error("the engine cannot be started, runs wait: %s", error)
                told = str(error)
                self._ending.wait(again_s)
                again_s = min(2 * again_s, AGAIN_MAX_S)
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker stays and says so until it goes away.
                if self._ending.is_set():
                    return
                log.error("the engine could not be started, trying again in %g s: %s", AGAIN_S, error)
                self._ending.wait(AGAIN_S)
                continue
            self.engine = engine
            self.watchdog = Watchdog(map_threads(engine.host), engine.worn_out, engine.stop, os._exit)
            self.watchdog.start()
            engine.host.offer()
            groups = (duties(), job_duties(), *outbox.duties(self._ending))
            self.threads = tuple(DutyThread(group, engine.host.lease.name) for group in groups)
            for thread in self.threads:
                thread.start()

    def stop(self) -> None:
        """Give this worker's runs back. It waits for an engine that is being started.

        A thread that is ended with the interpreter while a library's code is under way takes the process down with it
        (SIGABRT).
        """
        self._ending.set()
        if self._starting is not None:
            self._starting.join(STARTING_S)
        for thread in self.threads:
            thread.end()
        for thread in self.threads:
            thread.stop()
        if self.watchdog is not None:
            self.watchdog.stop()
        if self.engine is not None:
            self.engine.stop()


WORKER = EngineWorker()
