"""One page or one publication at a time: a run's page of many events, and what a publication takes.

``manage.py dev bench page`` and ``manage.py bench publish``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from django.test import Client
from django.test.utils import override_settings

from fabric.core.people.actor import Actor
from fabric.models import Fabric, Revision
from fabric.services.actors import login_link_create, owner_actor, owner_ensure
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.people.members import member_add, user_new
from tests.benchmarks import long_run


def measure_run_page(store: Any, events: int, rounds: int) -> dict[str, Any]:
    """Return milliseconds and bytes of the page of a run with at least so many events."""
    actor, spec = owner_actor(), long_run.SPEC
    fabric = Fabric.objects.create(workspace_id=actor.workspace_id, name=spec.name, title=spec.title)
    revision = Revision.objects.create(
        workspace_id=actor.workspace_id,
        fabric=fabric,
        number=1,
        digest=spec.digest(),
        spec=spec.model_dump_json(by_alias=True),
    )
    member_add(actor.workspace_id, user_new(actor.workspace_id, long_run.ANSWERS, None), ["reviewer"], by="")
    run = long_run.LongRun(store, actor.workspace_id, revision.id)
    run.until(events)
    browser = Client(HTTP_HOST="127.0.0.1")
    with override_settings(ALLOWED_HOSTS=["127.0.0.1"]):
        browser.post("/login/link", {"token": login_link_create(owner_ensure())})
        answers = [browser.get(f"/runs/{run.run_id}")]
        timed = _time(lambda: answers.append(browser.get(f"/runs/{run.run_id}")), rounds)
    return {"events": run.seq, "status": answers[-1].status_code, "bytes": len(answers[-1].content), **timed}


def measure_publication(rounds: int) -> dict[str, Any]:
    """Return milliseconds of the publication of the largest sample, changed each time."""
    actor = owner_actor()
    text = max((path.read_text(encoding="utf-8") for path in SAMPLES.glob("*.yaml")), key=len)
    _publish(actor, text, 0)
    numbers = iter(range(1, rounds + 1))
    return {"bytes": len(text.encode()), **_time(lambda: _publish(actor, text, next(numbers)), rounds)}


def _publish(actor: Actor, text: str, number: int) -> None:
    [line] = [line for line in text.splitlines() if line.startswith("title:")]
    fabric_publish(actor=actor, source=text.replace(line, f"title: The {number}. of its kind"))


def _time(do: Callable[[], object], rounds: int) -> dict[str, float]:
    """Return wall milliseconds of a call, and of this process's processor."""
    took = []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        do()
        took.append((1_000 * (time.perf_counter() - began), 1_000 * (time.process_time() - cpu)))
    walls, cpus = zip(*took, strict=True)
    return {
        "p50_ms": round(statistics.median(walls), 1),
        "best_ms": round(min(walls), 1),
        "p50_cpu_ms": round(statistics.median(cpus), 1),
    }
