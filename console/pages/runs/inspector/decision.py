"""Shows a decision: the cell of the table with its rungs, the numbers, and the reactions of other tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from console.pages.runs.inspector.fields import evidence
from console.pages.runs.inspector.inspected_event import InspectedEvent
from console.pages.runs.inspector.sections import Pair, Section, gate_checks, pairs, sentence
from console.templatetags.figures import span, usd
from console.templatetags.marks import FAILURES, TIERS
from fabric.composition import engine as wiring
from fabric.core.mechanisms import budget, find_state
from fabric.core.spec.policies.decision_table import Reaction, Rung
from fabric.core.spec.retry_layers import read_stage
from fabric.core.values.command_ids import read_step
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from fabric.program.name import program
from fabric.selectors.runs.display import choose_label
from fabric.selectors.runs.events.explanations import VERDICTS, Explained, class_words, decision_explained
from fabric.selectors.runs.events.leading import list_leading

RungState = Literal["taken", "spent", "skipped", "ahead", "first", "before"]

REACTION_ICONS: Mapping[Reaction, str] = {
    Reaction.HALT: "stop",
    Reaction.ABORT: "block",
    Reaction.ESCALATE: "human",
    Reaction.SURFACE: "surface",
    Reaction.TERMINATE: "minus",
    Reaction.REPLAN: "replan",
    Reaction.HANDOVER: "handover",
    Reaction.SAFE_FALLBACK: "lock",
    Reaction.FALLBACK_MODEL: "exchange",
    Reaction.CHEAPER_MODEL: "coins",
    Reaction.WAIT_FOR_BREAKER: "wait",
    Reaction.ACCEPT_PARTIAL: "surface",
    Reaction.ROUTE: "handover",
    Reaction.GO_BACK: "replan",
    Reaction.RETRY_NODE: "retry",
    Reaction.INJECT: "inject",
    Reaction.RETRY: "retry",
}
"""Symbol of the sprite for each reaction; total over ``Reaction``."""
REACTION_TONES: Mapping[Reaction, str] = {
    **dict.fromkeys((Reaction.HALT, Reaction.ABORT), "danger"),
    **dict.fromkeys((Reaction.ESCALATE,), "human"),
}
"""A taken rung is a warning; ends are worse, and people have their own colour."""


@dataclass(frozen=True, slots=True)
class RungMark:
    """One rung as the board draws it."""

    reaction: Reaction
    times: int | None
    state: RungState
    last: bool
    why: str = ""
    note: str = ""

    @property
    def icon(self) -> str:
        """The sprite's symbol."""
        return REACTION_ICONS[self.reaction]

    @property
    def word(self) -> str:
        """The reaction in words."""
        return words(self.reaction)

    @property
    def tone(self) -> str:
        """Only what was taken, or would be taken first, has a colour."""
        if self.state == "first":
            return "neutral"
        return REACTION_TONES.get(self.reaction, "warn") if self.state == "taken" else ""

    @property
    def says(self) -> str:
        """Its state in a word, for who does not see colours and lines."""
        return {
            "taken": "taken now",
            "spent": "spent",
            "skipped": "skipped",
            "ahead": "",
            "first": "",
            "before": "before it",
        }[self.state]


def decision_sections(seen: InspectedEvent) -> list[Section]:
    """Return a decision: its cell, its evidence, the numbers of that moment, the other tiers, and its derivation."""
    fact = seen.fact
    trips = [fact["cause"], *(trip for trip in fact["causes"] if trip != fact["cause"])]
    sections = [_cell(seen)]
    sections += [evidence(trip, "Also tripped" if n else "Evidence") for n, trip in enumerate(trips)]
    sections += [*_led_to(seen), *gate_checks(fact), _numbers(seen)]
    explained = decision_explained(seen.actor, seen.run.id, seen.record.row.seq, wiring.compile_under_policy)
    if explained is None:
        return [
            *sections,
            sentence(
                "Re-checked",
                f"Not shown here: `{program()} run explain` re-checks what lies this far in, or says what cannot be read.",
            ),
        ]
    return [*sections, *_others(explained), *_list_followers(explained), _build_derivation(explained)]


def _led_to(seen: InspectedEvent) -> list[Section]:
    """Return what came before the decision at its step, or at its stage: attempts, answers, results."""
    fact = seen.fact
    kind, _, name = str(fact["scope"]).partition(":")
    place = fact["step_id"] or read_step(fact["command_id"]) or (name if kind == "stage" else "")
    if not place:
        return []
    found = list_leading(seen.run.id, seen.record.row.seq, place, reads=seen.run.reads)
    rows = [Pair(one.label, one.seq, "seq", one.says) for one in found]
    return [pairs("Before this decision", *rows)] if rows else []


def _cell(seen: InspectedEvent) -> Section:
    fact = seen.fact
    if fact["failure_type"] is None:
        body: dict[str, Any] = {"rungs": [], "direct": words(fact["reaction"]), "tier": TIERS[fact["tier"]]}
        return Section("cell", "Rule for this failure", "no row of the table: this cause always goes to a person", body)
    table = seen.fabric
    failure, tier = FailureType(fact["failure_type"]), Tier(fact["tier"])
    rungs = table.ladders.find_ladder(failure, tier, read_stage(fact["step_id"], fact["scope"])).rungs
    skipped = {s.rung: s.reason for s in seen.moment.skipped} if seen.moment else {}
    body = {
        "failure": FAILURES[failure],
        "tier": TIERS[tier],
        "rungs": [_mark(n, rung, rungs, fact, skipped) for n, rung in enumerate(rungs)],
        "skipped": [(words(rungs[n].reaction), why) for n, why in skipped.items() if n < len(rungs)],
        "after": _describe_next_reaction(rungs, fact),
        "other_table": table.table_version != fact["table"],
        "fabric": seen.run.fabric_name,
        "number": seen.run.revision_number,
        "anchor": f"cell-{failure.value}-{tier.value}",
    }
    return Section("cell", "Rule for this failure", f"table {fact['table'][:12]}", body)


def _mark(
    n: int, rung: Rung, rungs: tuple[Rung, ...], fact: Mapping[str, JSON], skipped: Mapping[int, str]
) -> RungMark:
    state: RungState = "ahead"
    if n == fact["rung"]:
        state = "taken"
    elif n < fact["rung"]:
        state = "skipped" if n in skipped else "spent"
    return RungMark(rung.reaction, rung.times, state, n == len(rungs) - 1, skipped.get(n, ""))


def _describe_next_reaction(rungs: tuple[Rung, ...], fact: Mapping[str, JSON]) -> str:
    """Return the reaction to the next failure in this scope."""
    here, bound = fact["rung"], fact["bound"]
    used = fact["spent"] + 1
    if bound is None:
        return "Taken now: the last step, which may be taken again and again."
    again = f"step {here + 1} again, then " if used < bound else ""
    following = words(rungs[here + 1].reaction) if here + 1 < len(rungs) else "nothing"
    return (
        f"Taken now: step {here + 1} of {len(rungs)}, use {used} of {bound}. The next failure here: {again}{following}."
    )


def _numbers(seen: InspectedEvent) -> Section:
    fact, moment = seen.fact, seen.moment
    used = f"{fact['spent']} → {fact['spent'] + 1}" + (f" of {fact['bound']}" if fact["bound"] else "")
    rows = [
        Pair("layer", words(fact["layer"])),
        Pair("uses of this step", used),
        Pair("counted per", fact["scope"], "code"),
    ]
    if moment is not None:
        policy = seen.revision.spec.policy
        cap = budget.cap(policy.budget, find_state(moment.run.guards, budget))
        spent, held = moment.spent_usd_micros, moment.reserved_usd_micros
        at_work = f"{usd(held)} of it reserved by calls in flight" if held else f"of {usd(cap)}"
        run, now = moment.run, seen.record.row.at
        left = run.suspended.run_remaining_us if run.suspended else run.deadline_at - now
        rows += [
            Pair("money left", max(0, cap - spent), "usd", at_work),
            Pair("time left", f"{span(left)}" if left > 0 else "none: the deadline has passed", "text", "of the run"),
            Pair("new plans", _replans(seen, policy.limits.replans_per_stage)),
        ]
    rows += [Pair("with it", ", ".join(fact["accompanies"])), Pair("step", fact["step_id"], "code")]
    return pairs("Numbers at that moment", *rows, Pair("command", fact["command_id"], "code"))


def _replans(seen: InspectedEvent, limit: int) -> str:
    assert seen.moment is not None
    stage = seen.record.row.stage
    used = next((n for name, n in seen.moment.run.replans.items() if name == stage), 0)
    return f"{used} of {limit} in {words(stage)}" if stage else ""


def _others(explained: Explained) -> list[Section]:
    """Return the reactions of the other tiers, at an equal count."""
    found = [(TIERS[one.tier], _ladder(one.rungs, one.rung)) for one in explained.others]
    return [Section("others", "Other tiers would have", "at the same count", {"others": found})] if found else []


def _ladder(rungs: tuple[Rung, ...], at: int) -> list[RungMark]:
    last = len(rungs) - 1
    states: list[RungState] = ["ahead" if n > at else "first" if n == at else "before" for n in range(len(rungs))]
    return [RungMark(rung.reaction, rung.times, states[n], n == last) for n, rung in enumerate(rungs)]


def _list_followers(explained: Explained) -> list[Section]:
    rows = [Pair(choose_label(one.kind), one.seq, "seq", one.says) for one in explained.followed]
    return [pairs("Consequences", *rows)] if rows else []


def _build_derivation(explained: Explained) -> Section:
    """Return the second derivation of the decision, and its differences."""
    one = explained.derived
    tone = "ok" if one.verdict == "equal" else "danger"
    rows = [Pair("verdict", VERDICTS[one.verdict], tone=tone)]
    rows += [
        Pair(
            f"step {rung + 1} skipped",
            "follows from the journal" if known else "as recorded: its numbers are not in the journal",
        )
        for rung, _, known in one.skipped
    ]
    rows += [Pair("judged again", ", ".join(one.judged), "text", "numbers of what was done")] if one.judged else []
    rows += [Pair(d.field, d.recorded, "text", f"derived: {d.derived}", tone="danger") for d in one.differences]
    return pairs("Re-checked", *rows, Pair("failure class", class_words(explained)))
