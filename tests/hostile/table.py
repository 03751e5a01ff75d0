"""``python -m tests.hostile.table``: what the worst input of the largest size takes of each parser and evaluator, as a table for docs/figures.md."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator

from tests.hostile.test_hostile import GROWN_KB_MAX, MODULES, ROOT

HEAD = "| what is read or asked | cases | most memory (MB) | by | most processor time (s) | by |\n|---|---|---|---|---|---|"


def rows(told: Iterable[dict[str, str | float]]) -> Iterator[str]:
    """A row for each kind of text, which stands before the comma of a case's name."""
    kinds: dict[str, list[tuple[str, float, float]]] = {}
    for one in told:
        kind, _, name = str(one["name"]).partition(", ")
        kinds.setdefault(kind, []).append((name, float(one["grown_kb"]) / 1024, float(one.get("cpu_s", 0.0))))
    for kind, cases in kinds.items():
        large, slow = max(cases, key=lambda case: case[1]), max(cases, key=lambda case: case[2])
        yield f"| {kind} | {len(cases)} | {large[1]:.0f} | {large[0]} | {slow[2]:.1f} | {slow[0]} |"


def measured() -> Iterator[dict[str, str | float]]:
    """Every case of every module, each in a process of its own."""
    for module in MODULES:
        line = [sys.executable, "-m", "tests.hostile.measured", f"tests.hostile.{module}"]
        ran = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=True)
        yield from map(json.loads, ran.stdout.splitlines())


if __name__ == "__main__":
    print(HEAD)
    for row in rows(measured()):
        print(row)
    print(f"\nEach may take {GROWN_KB_MAX // 1024} MB.")
