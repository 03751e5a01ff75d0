"""flow5 as a Celery canvas: ``python -m tests.benchmarks.peers.celery_chord URL``, beside a worker of ``app`` on the same Redis.

As its documentation has it: a chain of the plan, a chord of the four workers with the fan-in as its body, the critique and the outcome. Every step is a
message of its own, and its result is kept in Redis.
"""

from __future__ import annotations

import sys
from typing import Any

import celery
from celery import Celery, chain, chord

from tests.benchmarks.peers.serving import on_threads, serve
from tests.benchmarks.throughput.answers import REQUEST, SAID, WORKERS

NAME = "tests.benchmarks.peers.celery_chord"
WAIT_S = 60.0
KEPT_S = 3_600
"""How long results are kept."""

app = Celery("flow5")
app.conf.update(
    broker_connection_retry_on_startup=True,
    result_expires=KEPT_S,
    # Root is who a container's process usually is; only JSON is accepted.
    accept_content=["json"],
    worker_hijack_root_logger=False,
)


@app.task(name="plan")
def plan(request: str) -> Any:
    """The plan."""
    return SAID["plan"]


@app.task(name="work")
def work(planned: Any, number: int) -> Any:
    """One worker's part: the brief with that number."""
    return SAID["summary"] if planned["briefs"][number] else None


@app.task(name="fan_in")
def fan_in(parts: Any) -> Any:
    """All parts as one."""
    return SAID["summary"]


@app.task(name="validate")
def validate(merged: Any) -> Any:
    """The critique."""
    return SAID["critique"]


@app.task(name="finalize")
def finalize(critique: Any) -> Any:
    """The outcome."""
    return SAID["summary"]


def flow5() -> Any:
    """The five stages."""
    workers = chord([work.s(number) for number in range(WORKERS)], fan_in.s())
    return chain(plan.s(REQUEST), workers, validate.s(), finalize.s())


def main(url: str) -> None:
    """Serves until standard input closes."""
    app.conf.update(broker_url=url, result_backend=url)
    serve(f"celery {celery.__version__}", on_threads(lambda: flow5().apply_async().get(timeout=WAIT_S)))


if __name__ == "__main__":
    main(sys.argv[1])
