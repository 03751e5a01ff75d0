"""Builds the lines of a drill's page: expected, observed, evidence, and place in the run's journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.urls import reverse

from console.templatetags.marks import FAILURES
from console.words.drills import LINES, ChainStep, DrillMark, Same, align_chains, step_words
from fabric.core.values.taxonomy import FailureType
from fabric.core.values.units import JSON
from simulator.drills.selectors.drill_views import DrillView, State
from simulator.scenarios.stories.evidence import exactly, seconds

Fact = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class DrillLine:
    """One line."""

    number: int
    how: Same
    expected: ChainStep | None
    observed: ChainStep | None
    evidence: str = ""
    at_s: float | None = None
    """Time of the decision, in virtual seconds from the run's start; None if unknown."""
    seq: int = 0
    """Sequence number of the event in the run's journal; 0 if unknown."""
    address: str = ""
    """Address of the event on the run's page; empty if the run was not kept."""
    current: bool = field(default=False, compare=False)
    """True if the player is at this decision."""

    @property
    def mark(self) -> DrillMark:
        """Return its badge."""
        return DrillMark(*LINES[self.how], "plain")

    @property
    def when(self) -> str:
        """Return the time in words; empty if unknown."""
        return "" if self.at_s is None else f"+{seconds(self.at_s)}"


def find_run(seen: DrillView) -> str:
    """Return the id of the disturbed run; empty if it was not kept."""
    runs = seen.body.get("runs")
    return seen.run_id or (str(runs.get("during") or "") if isinstance(runs, dict) else "")


def disturbed_story(seen: DrillView) -> Fact:
    """Return the story of the disturbed run; empty if it has none."""
    story = seen.body.get("story")
    found = story.get("disturbed") if isinstance(story, dict) else None
    return found if isinstance(found, dict) else {}


def list_lines(seen: DrillView, run: str = "") -> list[DrillLine]:
    """Return every line; none if the drill has nothing to compare.

    ``run``: the run that the lines link to; empty for lines without links.
    """
    if seen.verdict == State.ERROR:
        return []
    found = _list_scenario_lines(seen) if seen.body.get("lines") else _list_cell_lines(seen)
    if not run:
        return found
    page = reverse("run", args=[run])
    return [replace(one, address=f"{page}?event={one.seq}") if one.seq else one for one in found]


def mark_moment(lines: Sequence[DrillLine], seq: int) -> list[DrillLine]:
    """Return the lines, with a mark on the last decision up to an event of the run."""
    reached = [one.number for one in lines if 0 < one.seq <= seq]
    return [replace(one, current=bool(reached) and one.number == reached[-1]) for one in lines]


# -- cells -------------------------------------------------------------------------------------------------------------


def _list_cell_lines(seen: DrillView) -> list[DrillLine]:
    lines = align_chains(seen.expected, seen.observed)
    decisions = list(disturbed_story(seen).get("decisions", ()))
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


def _line(
    number: int, how: Same, expected: ChainStep | None, observed: ChainStep | None, fact: Fact | None
) -> DrillLine:
    if fact is None:
        return DrillLine(number, how, expected, observed)
    if observed is not None and not observed.end:
        observed = observed._replace(words=_count_retries(observed.words, fact))
        expected = observed if how == "same" else expected
    return DrillLine(number, how, expected, observed, str(fact["evidence"]), float(fact["at_s"]), int(fact["seq"]))


def _count_retries(words: str, fact: Fact) -> str:
    """Return ``retry 1 of 5``, or that the rung is the last."""
    if fact.get("what") in ("skipped", "left"):
        return words
    return f"{words} {fact['use']} of {fact['bound']}" if fact.get("bound") else f"{words}, last step"


def _end(seen: DrillView) -> Fact | None:
    """Return the end of the run as the fact of a line; None if it has not ended."""
    story = disturbed_story(seen)
    moments = story.get("moments") or ()
    last: Fact = moments[-1] if moments else {}
    if last.get("kind") != "run_ended":
        return None
    spent = exactly(int(story.get("cost_usd_micros") or 0))
    return {"evidence": f"{spent} spent", "at_s": last["at_s"], "seq": last["seq"]}


# -- scenarios ---------------------------------------------------------------------------------------------------------


def _list_scenario_lines(seen: DrillView) -> list[DrillLine]:
    """Return a line for each decision of a scenario, compared with the table, for any row."""
    known = {one["seq"]: one for one in disturbed_story(seen).get("decisions", ())}
    return [_build_decision_line(number, line, known) for number, line in enumerate(seen.body["lines"], 1)]


def _build_decision_line(number: int, line: Fact, known: Mapping[int, Fact]) -> DrillLine:
    fact = known.get(line["seq"], {})
    how: Same = "same" if line["expected"] == line["observed"] else "deviates"
    evidence = str(fact.get("evidence") or line.get("evidence") or "")
    at_s = float(fact["at_s"]) if fact else None
    sides = _step(str(line["expected"])), _step(str(line["observed"]))
    return DrillLine(number, how, *sides, evidence, at_s, int(line["seq"]))


def _step(told: str) -> ChainStep:
    """Return ``provider_failure: retry`` in words."""
    row, _, reaction = told.rpartition(": ")
    step = step_words(reaction)
    where = FAILURES[FailureType(row)] if row in set(FailureType) else row.replace("_", " ")
    return step._replace(words=f"{where}: {step.words}") if where else step
