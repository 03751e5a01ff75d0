"""Scenarios that were played, as JSON and as a JUnit report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from simulator.drills.batches.modes import build_body
from simulator.scenarios.play.verdicts import Verdict
from simulator.scenarios.reports.formats import TAGS, element, seconds_told, xml_text

if TYPE_CHECKING:
    from simulator.scenarios.play.player import Played
    from simulator.scenarios.play.previews import Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Result of a scenario in one tier, virtual or live."""

    tier: Tier
    verdict: Verdict
    expected: str
    observed: str
    why: str
    seed: int
    equipped: str
    seconds: float
    """Duration in seconds, by the clock of the caller."""
    body: Mapping[str, JSON]
    """Further results (``modes.build_body``)."""
    journal: Callable[[], str]
    """Returns its record, as chaostoolkit writes it. Raises Refused without one."""


def play_virtual(one: Played) -> Play:
    """Return the result of a scenario played in simulated time."""
    return Play(
        tier=one.tier,
        verdict=one.verdict,
        expected=one.expected_decisions,
        observed=one.observed_chain,
        why=one.why,
        seed=one.seed,
        equipped=one.equipped,
        seconds=(one.end - one.start).total_seconds(),
        body=build_body(one),
        journal=lambda: one.journal().write_json(),
    )


@dataclass(frozen=True, slots=True)
class Plays:
    """A scenario that was played in a fabric."""

    scenario: str
    fabric: str
    played: Sequence[Play]
    seconds: float

    @property
    def passed_count(self) -> int:
        """Return the number of tiers in which it passed."""
        return sum(one.verdict == "pass" for one in self.played)


def plays_json(plays: Plays) -> dict[str, JSON]:
    """Return the results of all tiers, numbers of passed and failed, and duration."""
    return {
        "scenario": plays.scenario,
        "fabric": plays.fabric,
        "tiers": [_tier(one) for one in plays.played],
        "passed": plays.passed_count,
        "failed": len(plays.played) - plays.passed_count,
        "seconds": round(plays.seconds, 3),
    }


def _tier(one: Play) -> dict[str, JSON]:
    told = {name: getattr(one, name) for name in ("verdict", "expected", "observed", "why", "seed")}
    return {"tier": str(one.tier), **told, **one.body}


def preview_json(one: Preview) -> dict[str, JSON]:
    """Return the calls that would be struck in a tier."""
    return {
        "tier": str(one.tier),
        "seed": one.seed,
        "equipped": one.equipped,
        "undisturbed": {
            "state": one.state,
            "model_calls": one.model_calls,
            "tool_calls": one.tool_calls,
            "virtual_s": one.took_s,
        },
        "struck": [
            {
                "fault": each.fault,
                "words": each.words,
                "calls": each.count if each.watched else None,
                "first": [{"who": met.who, "step": met.step, "at_s": met.at_s} for met in each.calls],
            }
            for each in one.struck
        ],
    }


def plays_junit(plays: Plays) -> str:
    """Return one suite with a case for each tier. Nothing counts as skipped: a tier without proof is no pass."""
    tags = Counter(TAGS[one.verdict] for one in plays.played)
    counts = {"tests": str(len(plays.played)), "failures": str(tags["failure"]), "errors": str(tags["error"])}
    told: Mapping[str, str] = {"fabric": plays.fabric} | {f"seed.{one.tier}": str(one.seed) for one in plays.played}
    properties = [element("property", {"name": name, "value": value}) for name, value in told.items()]
    cases = [_case(plays, one) for one in plays.played]
    attributes = {"name": plays.scenario, **counts, "time": seconds_told(plays.seconds)}
    suite = element("testsuite", {**attributes, "skipped": "0"}, [element("properties", {}, properties), *cases])
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + element("testsuites", attributes, [suite]) + "\n"


def _case(plays: Plays, one: Play) -> str:
    name, of = f"{plays.scenario} x {one.tier}", f"scenarios.{plays.fabric}"
    attributes = {"name": name, "classname": of, "time": seconds_told(one.seconds)}
    tag = TAGS[one.verdict]
    if not tag:
        return element("testcase", attributes)
    told = [f"expected: {one.expected}", f"observed: {one.observed}", f"seed: {one.seed}", f"why: {one.why}"]
    if one.equipped:
        told.append(f"the fabric was given {one.equipped}")
    body = xml_text("\n".join(told))
    return element(
        "testcase", attributes, [element(tag, {"type": one.verdict, "message": one.why}, [body], inline=True)]
    )
