"""``python -m console.worker [--threads N]``: runs a worker of Celery with this product's options.

`manage.py up` and the container start it. It is `celery -A console worker` without Celery's other commands, whose
libraries would take 9 MB of each worker.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from console.celery import app

THREADS = 4
"""Threads for Celery's tasks. A task only offers a run to the host and returns; runs are not what they are for."""


def main(argv: Sequence[str]) -> int:
    """Run a worker until it is stopped; return its exit code."""
    worker = app.Worker(
        pool_cls="threads",
        concurrency=_options(argv).threads,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m console.worker", allow_abbrev=False, description="Run a worker: it drives runs."
    )
    parser.add_argument(
        "--threads", type=_count, default=THREADS, help="threads for messages of the broker (default: %(default)s)"
    )
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of threads: give 1 or more")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
