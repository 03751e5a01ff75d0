"""``python -m tests.hostile.measured MODULE``: every case of a module in a process of its own, one line of JSON each.

A case is called twice: with what is harmless, so that its libraries are loaded, and then, in a fork, with what is not.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import django

CPU_S = 60
"""Seconds of processor time that a case may take: far more than each needs, so that a slow machine says nothing."""
MEMORY_BYTES = 2 * 1024**3
"""Of address space more than it has: what runs away ends itself and not the machine."""

SAID_CHARS = 500
"""Of what was said, beside its end."""


class Case(NamedTuple):
    """One hostile input: what reads it and gives its sentence back, a harmless input, the hostile one, and a pattern of the sentence."""

    said: Callable[[str], str]
    harmless: str
    hostile: str
    tells: str


def peak_kb() -> int:
    """The most memory that this process has had, in KB."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


def _size_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _measured(case: Case) -> dict[str, str | float]:
    case.said(case.harmless)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        most = _size_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        Path("/proc/self/clear_refs").write_text("5")  # The peak begins anew.
        before, begun = peak_kb(), time.process_time()
        try:
            said = case.said(case.hostile)
        except BaseException as error:  # noqa: BLE001 - Whatever it raises is told, and is no sentence.
            said = f"raised {type(error).__name__}"
        os.write(
            writes,
            json.dumps(
                {
                    "said": said if len(said) <= SAID_CHARS else f"{said[:SAID_CHARS]} ... {said[-100:]}",
                    "grown_kb": peak_kb() - before,
                    "cpu_s": round(time.process_time() - begun, 1),
                }
            ).encode(),
        )
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(told) if told else {"said": f"ended by {os.waitstatus_to_exitcode(status)}", "grown_kb": 0}


def main() -> None:
    """Measures the cases of a module."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    for name, case in import_module(sys.argv[1]).CASES.items():
        print(json.dumps({"name": name, **_measured(case)}), flush=True)


if __name__ == "__main__":
    main()
