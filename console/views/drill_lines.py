"""The lines of a drill as its page shows them: expected, observed, on what evidence, and where in the run's journal it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.urls import reverse

from console.templatetags.marks import FAILURES
from console.views.drill_words import LINES, Mark, Same, Step, aligned, step_words
from fabric.core.taxonomy import FailureType
from simulator.drills.evidence import exactly, seconds
from simulator.drills.selectors import DrillView, State

JSON = Any
Fact = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Shown:
    """One line."""

    number: int
    how: Same
    expected: Step | None
    observed: Step | None
    evidence: str = ""
    at_s: float | None = None
    """When it was decided, virtual seconds from the run's start; None: that is not known."""
    seq: int = 0
    """The event in the run's journal; 0: none is known."""
    address: str = ""
    """Of that event on the run's page; empty: the run was not kept."""
    current: bool = field(default=False, compare=False)
    """Whether the player stands at it."""

    @property
    def mark(self) -> Mark:
        """Its badge."""
        return Mark(*LINES[self.how], "plain")

    @property
    def when(self) -> str:
        """When, in words; empty: not known."""
        return "" if self.at_s is None else f"+{seconds(self.at_s)}"


def run_of(seen: DrillView) -> str:
    """Id of the disturbed run, where it was kept; empty: it was not."""
    runs = seen.body.get("runs")
    return seen.run_id or (str(runs.get("during") or "") if isinstance(runs, dict) else "")


def disturbed(seen: DrillView) -> Fact:
    """The story of the disturbed run; empty: there is none."""
    story = seen.body.get("story")
    found = story.get("disturbed") if isinstance(story, dict) else None
    return found if isinstance(found, dict) else {}


def lines_of(seen: DrillView, run: str = "") -> list[Shown]:
    """Every line; none where a drill has nothing to compare. ``run``: the run whose events they lead to; empty: none can be looked at."""
    if seen.verdict == State.ERROR:
        return []
    found = _of_a_scenario(seen) if seen.body.get("lines") else _of_a_cell(seen)
    if not run:
        return found
    page = reverse("run", args=[run])
    return [replace(one, address=f"{page}?event={one.seq}") if one.seq else one for one in found]


def at_moment(lines: Sequence[Shown], seq: int) -> list[Shown]:
    """The lines, with the one marked that was decided last by an event of the run."""
    reached = [one.number for one in lines if 0 < one.seq <= seq]
    return [replace(one, current=bool(reached) and one.number == reached[-1]) for one in lines]


# -- cells -------------------------------------------------------------------------------------------------------------


def _of_a_cell(seen: DrillView) -> list[Shown]:
    lines = aligned(seen.expected, seen.observed)
    decisions = list(disturbed(seen).get("decisions", ()))
    # A story that left some out cannot be laid beside the chain line by line.
    known = len(decisions) == sum(line.observed is not None and not line.observed.end for line in lines)
    waiting = iter(decisions if known else ())
    ended = _end(seen)
    shown = []
    for line in lines:
        fact: Fact | None = None
        if line.observed is not None:
            fact = ended if line.observed.end else next(waiting, None)
        shown.append(_line(line.number, line.how, line.expected, line.observed, fact))
    return shown


def _line(number: int, how: Same, expected: Step | None, observed: Step | None, fact: Fact | None) -> Shown:
    if fact is None:
        return Shown(number, how, expected, observed)
    if observed is not None and not observed.end:
        observed = observed._replace(words=_counted(observed.words, fact))
        expected = observed if how == "same" else expected
    return Shown(number, how, expected, observed, str(fact["evidence"]), float(fact["at_s"]), int(fact["seq"]))


def _counted(words: str, fact: Fact) -> str:
    """``retry 1 of 5``; of a rung without an end that it is the last."""
    if fact.get("what") in ("skipped", "left"):
        return words
    return f"{words} {fact['use']} of {fact['bound']}" if fact.get("bound") else f"{words}, last rung"


def _end(seen: DrillView) -> Fact | None:
    """How the run ended, as a line has it."""
    story = disturbed(seen)
    moments = story.get("moments") or ()
    last: Fact = moments[-1] if moments else {}
    if last.get("kind") != "run_ended":
        return None
    spent = exactly(int(story.get("cost_usd_micros") or 0))
    return {"evidence": f"{spent} spent", "at_s": last["at_s"], "seq": last["seq"]}


# -- scenarios ---------------------------------------------------------------------------------------------------------


def _of_a_scenario(seen: DrillView) -> list[Shown]:
    """Each decision against the table, whatever row it entered."""
    known = {one["seq"]: one for one in disturbed(seen).get("decisions", ())}
    return [_decided(number, line, known) for number, line in enumerate(seen.body["lines"], 1)]


def _decided(number: int, line: Fact, known: Mapping[int, Fact]) -> Shown:
    fact = known.get(line["seq"], {})
    how: Same = "same" if line["expected"] == line["observed"] else "deviates"
    evidence = str(fact.get("evidence") or line.get("evidence") or "")
    at_s = float(fact["at_s"]) if fact else None
    sides = _step(str(line["expected"])), _step(str(line["observed"]))
    return Shown(number, how, *sides, evidence, at_s, int(line["seq"]))


def _step(told: str) -> Step:
    """``provider_failure: retry`` in words."""
    row, _, reaction = told.rpartition(": ")
    step = step_words(reaction)
    where = FAILURES[FailureType(row)] if row in set(FailureType) else row.replace("_", " ")
    return step._replace(words=f"{where}: {step.words}") if where else step
