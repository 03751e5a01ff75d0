"""The Celery application. A worker is started with `celery -A console worker --pool threads`."""

import os
import warnings

from celery import Celery, signals
from celery.concurrency.solo import TaskPool as SoloPool
from celery.concurrency.thread import TaskPool as ThreadPool
from celery.platforms import SecurityWarning
from celery.worker import WorkController
from django.core.exceptions import ImproperlyConfigured

from console.launch.processes.errors import StartRefused
from console.launch.processes.heartbeat import beat_on

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Celery runs Django's checks in each worker and throws away what they find; they load every page of the console, which
# is half of a worker's start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

# Root is who a container's process usually is, and only JSON is accepted, which is what the warning is about.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("fabric-flow")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def refuse_forking_pools(sender: WorkController, **_: object) -> None:
    """Refuse a worker whose pool forks or patches: one process owns its runs with threads and one event loop."""
    pool = sender.pool_cls if isinstance(sender.pool_cls, str) else sender.pool_cls.__module__.rpartition(".")[2]
    if sender.pool_cls not in (ThreadPool, SoloPool) and pool not in ("threads", "solo"):
        raise StartRefused(
            f"A worker cannot use the {pool} pool: start it with `celery -A console worker --pool threads`."
        )


def refuse_unusable_providers(**_: object) -> None:
    """Raise Refused for an unavailable provider, rule of graphs or tool: a worker without it would abandon runs."""
    from fabric.composition import engine as wiring  # It needs Django's apps, which are loaded by now.

    try:
        wiring.refuse_unusable_providers()
        wiring.refuse_unusable_rules()
        wiring.refuse_unusable_tools()
    except ImproperlyConfigured as error:
        raise StartRefused(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None


def leave_logging_to_django(**_: object) -> None:
    """Stop Celery from changing the logging of FABRIC_LOG_LEVEL and the settings."""


def beat(**_: object) -> None:
    """Start the heartbeat of this worker, for its outside watcher."""
    beat_on()


signals.worker_init.connect(refuse_forking_pools)
signals.worker_init.connect(refuse_unusable_providers)
signals.celeryd_after_setup.connect(beat)
signals.setup_logging.connect(leave_logging_to_django)
