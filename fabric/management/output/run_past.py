"""The command's words about a run as of an event: a fact a line, or one line of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.values.units import JSON
from fabric.core.values.words import dollars, instant_exact, words
from fabric.management.output.colours import paint
from fabric.selectors.runs.margins.margin import Margin
from fabric.selectors.runs.past.views import PastRun
from fabric.selectors.visible_text import visible_line

MARGINS_SHOWN = 5


def past_lines(past: PastRun, *, terminal: bool) -> Iterator[str]:
    """Yield what a run was as of an event, a fact a line."""
    run = past.run
    facts: dict[str, Any] = {
        "state": paint(words(run.state), run.state, terminal=terminal),
        "reason": visible_line(run.reason),
        "stage": words(run.stage),
        "spent": f"{dollars(run.cost_usd_micros)}, {run.tokens:,} tokens",
        "reserved": dollars(past.reserved_usd_micros),
        "left": _say_left(past),
        "retries": "" if past.retry_tokens is None else f"{past.retry_tokens:g} tokens left",
        "deadline": instant_exact(run.deadline_at) if run.deadline_at else "",
    }
    yield f"Run {run.id} as of event {past.seq} of {past.last_seq}, {instant_exact(past.at)}"
    yield from (f"  {name:<10} {said}" for name, said in facts.items() if said)
    yield from (f"  {'limit':<10} {_say_margin(one)}" for one in past.margins[:MARGINS_SHOWN])
    yield from (f"  {'breaker':<10} {one.where}: {one.word}" for one in past.breakers)
    yield from (
        f"  {'review':<10} {one.who} until {instant_exact(one.due_at)}: {visible_line(one.reason)}"
        for one in past.reviews
    )
    yield from (f"  {'said':<10} event {one.seq}, {one.who}, {one.step}: {one.state}" for one in past.conversation)


def past_json(past: PastRun) -> dict[str, JSON]:
    """Return a run as of an event, for ``--json``."""
    run = past.run
    same = ("state", "stage", "epoch", "reason", "tokens", "deadline_at")
    return {
        "run_id": run.id,
        "seq": past.seq,
        "last_seq": past.last_seq,
        "at": past.at,
        **{name: getattr(run, name) for name in same},
        "fired": list(run.fired),
        "spent_usd_micros": run.cost_usd_micros,
        "reserved_usd_micros": past.reserved_usd_micros,
        "left_usd_micros": past.left_usd_micros,
        "cap_usd_micros": past.cap_usd_micros,
        "retry_tokens": past.retry_tokens,
        "margins": [
            {"key": one.key, "where": one.where, "observed": one.observed, "limit": one.limit} for one in past.margins
        ],
        "breakers": [{"where": one.where, "scope": one.scope, "state": one.word} for one in past.breakers],
        "reviews": [
            {"id": one.id, "reason": one.reason, "asked": one.who, "due_at": one.due_at} for one in past.reviews
        ],
        "conversation": [
            {"seq": one.seq, "who": one.who, "step": one.step, "state": one.state} for one in past.conversation
        ],
    }


def _say_left(past: PastRun) -> str:
    if past.left_usd_micros < 0:
        return f"nothing of {dollars(past.cap_usd_micros)}: over by {dollars(-past.left_usd_micros)}"
    return f"{dollars(past.left_usd_micros)} of {dollars(past.cap_usd_micros)}"


def _say_margin(margin: Margin) -> str:
    where = f" ({margin.where})" if margin.where else ""
    tripped = ", tripped" if margin.fired is not None else ""
    return f"{margin.name}{where}: {100 * margin.share:.0f} %{tripped}"
