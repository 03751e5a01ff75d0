"""`manage.py dev detectors DIR`: shows which recorded runs the detectors would have stopped.

These are the loop detectors, the failure signature and the deadlock monitor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.values.words import words
from fabric.management.base import OK, FabricCommand
from fabric.services.runs.traces.detector_trial import NAMES, evaluate

KINDS = ("good", "failed", "halted")


class Command(FabricCommand):
    """Runs every detector over recorded traces."""

    help = (
        "Read every *.jsonl of a folder (the form: tests/data/traces/README.md) and say how many good, failed and halted runs each "
        "detector would have stopped, and what was left at each catch. Ends with one line of JSON; exit code 2 for input that cannot be read."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder."""
        parser.add_argument("dir", metavar="DIR", help="the folder with the *.jsonl files")
        parser.add_argument("--json", action="store_true", help="nothing but the line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Read, judge and report."""
        found = evaluate(Path(options["dir"]))
        if not options["json"]:
            self.stdout.write(f"{'detector':<36} {'good stopped':>18} {'failed caught':>18} {'halted caught':>18}")
            for name in NAMES:
                cells = (_cell(found["by_detector"][name][kind]) for kind in KINDS)
                self.stdout.write(f"{_name_rule(name):<36} " + " ".join(f"{cell:>18}" for cell in cells))
            for file, figures in found["files"].items():
                cells = (_cell(figures[kind]) for kind in KINDS)
                self.stdout.write(f"{file:<36} " + " ".join(f"{cell:>18}" for cell in cells))
            cells = (_cell(found["hung"][kind]) for kind in KINDS)
            self.stdout.write(f"{'of runs that hung':<36} " + " ".join(f"{cell:>18}" for cell in cells))
            for one in found["catches"]:
                self.stdout.write(_describe_catch(one))
        self.put(found)
        return OK


def _name_rule(rule: str) -> str:
    """Return a rule's name on the pages."""
    return LOOP_NAMES[rule].name if rule in LOOP_NAMES else words(rule)


def _describe_catch(one: dict[str, Any]) -> str:
    """Return a line about one catch."""
    kind = {True: "good", False: "failed", None: "unjudged"}[one["success"]]
    second = "no second trip" if one["second"] is None else f"second trip at step {one['second'] + 1}"
    left = f"{one['calls_left']} calls, {one['tokens_left']:,} tokens and ${one['usd_left']:.2f} left"
    where = f"step {one['step'] + 1} of {one['steps']}"
    return f"{one['trace']:<26} {kind:<8} {', '.join(map(_name_rule, one['rules'])):<20} {where:<18} {left}; {second}"


def _cell(figures: dict[str, int]) -> str:
    if not figures["runs"]:
        return "none"
    return f"{figures['stopped']} of {figures['runs']} ({100 * figures['stopped'] / figures['runs']:.1f} %)"
