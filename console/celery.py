"""The Celery application. A worker is started with `celery -A console worker --pool threads`."""

import os
import warnings

from celery import Celery, signals
from celery.concurrency.solo import TaskPool as SoloPool
from celery.concurrency.thread import TaskPool as ThreadPool
from celery.platforms import SecurityWarning
from celery.worker import WorkController

from console.launch.errors import Refused

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# Root is who a container's process usually is, and only JSON is accepted, which is what the warning is about.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("fabric-flow")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def refuse_forking_pools(sender: WorkController, **_: object) -> None:
    """Refuse a worker whose pool forks or patches: one process owns its runs with threads and one event loop."""
    pool = sender.pool_cls if isinstance(sender.pool_cls, str) else sender.pool_cls.__module__.rpartition(".")[2]
    if sender.pool_cls not in (ThreadPool, SoloPool) and pool not in ("threads", "solo"):
        raise Refused(f"A worker cannot use the {pool} pool: start it with `celery -A console worker --pool threads`.")


signals.worker_init.connect(refuse_forking_pools)
