"""The tables of docs/reference/detectors.md are made of the recorded runs in tests/data/traces."""

from __future__ import annotations

from functools import cache
from typing import Any

from console.launch.processes.data_directory import ROOT
from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.values.words import words
from fabric.services.runs.traces.detector_trial import evaluate
from tests.documents.written import REFERENCE, hold_table

PAGE = REFERENCE / "detectors.md"
HEAD = "good runs stopped | failed runs caught |\n|---|---|---|\n"


@cache
def judged() -> dict[str, Any]:
    return evaluate(ROOT / "tests" / "data" / "traces")


def share(figures: dict[str, int]) -> str:
    stopped, runs = figures["stopped"], figures["runs"]
    return f"{stopped} of {runs} ({100 * stopped / runs:.1f} %)" if runs else "none there"


def row(name: str, figures: dict[str, Any]) -> str:
    return f"| {name} | {share(figures['good'])} | {share(figures['failed'])} |"


def tables() -> dict[str, str]:
    """The tables by the heading above each."""
    rules = [
        row(LOOP_NAMES[one].name if one in LOOP_NAMES else words(one), all_)
        for one, all_ in judged()["by_detector"].items()
    ]
    files = [row(name.removesuffix(".jsonl"), figures) for name, figures in judged()["files"].items()]
    return {
        "By detector": f"| detector | {HEAD}" + "\n".join(rules) + "\n",
        "By file": f"| file | {HEAD}" + "\n".join(files) + "\n",
    }


def test_the_tables_are_those_of_the_recorded_runs() -> None:
    for heading, made in tables().items():
        hold_table(PAGE, heading, made)


def test_what_the_page_says_of_catches_and_of_runs_that_hung() -> None:
    caught = [one for one in judged()["catches"] if one["success"] is False]
    left = sum(1 for one in caught if one["calls_left"])
    hung = judged()["hung"]["failed"]
    text = " ".join(PAGE.read_text().split())
    assert (
        f"{len(caught)} failed runs are caught. {left} of them had further calls after the trip, at most {max(one['calls_left'] for one in caught)}."
        in text
    )
    assert f"{hung['runs']} runs really hung" in text
    assert f"{hung['stopped']} of them are caught." in text
