"""What people did with a run as a whole: cancelled, terminated, paused, resumed, forked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from console.templatetags.figures import usd
from console.views.inspect_models import candidates
from console.views.sections import Pair, Section, content, listed, pairs, told
from fabric.core.budget_caps import amount_words, cap_words
from fabric.core.words import words

if TYPE_CHECKING:
    from console.views.inspect import Seen


def cancelled(seen: Seen) -> list[Section]:
    """Who, and why."""
    return [_by("Cancelled", seen)]


def terminated(seen: Seen) -> list[Section]:
    """Who, why, and that nothing is undone."""
    return [_by("Terminated", seen), told("What follows", "Calls in flight are let go, and nothing is undone.")]


def paused(seen: Seen) -> list[Section]:
    """Who, why, and the time that is left."""
    fact = seen.fact
    clocks = pairs(
        "Clocks",
        Pair("run, left", fact["run_remaining_us"], "us"),
        Pair("stage, left", fact["stage_remaining_us"], "us"),
    )
    note = (
        "Nothing is issued until it is resumed. What was out comes back and is kept; a question keeps its own due time."
    )
    return [_by("Paused", seen), clocks, told("What follows", note)]


def alerted(seen: Seen) -> list[Section]:
    """What people are told of, and that the run goes on."""
    fact = seen.fact
    facts = pairs(
        "Alert",
        Pair("from", words(fact["mechanism"])),
        Pair("cause", words(fact["cause"]), tone="warn"),
        Pair("message", fact["message"]),
        Pair("decided", words(fact["reaction"])),
        Pair("step", fact["step_id"], "code"),
    )
    return [facts, told("What follows", "The run goes on as decided; nobody has to answer.")]


def model_changed(seen: Seen) -> list[Section]:
    """Which model answers from now on, why, what it had to be capable of, and what it costs more."""
    fact = seen.fact
    because = f"{words(fact['reason'])}, {words(fact['cause'])}" if fact["cause"] else words(fact["reason"])
    facts = pairs(
        "Another model",
        Pair("agent", fact["agent"]),
        Pair("until now", fact["before"], "code"),
        Pair("from now on", fact["model"], "code"),
        Pair("why", because),
        Pair("approved by", fact["actor"] or None, tone="human"),
        Pair("needed", ", ".join(words(one) for one in fact["needs"]) or None),
        Pair("costs", _dearer(fact["more_usd_micros"]) if fact["command_id"] else None, "text", "at worst, this call"),
        Pair(
            "reasoning left out",
            fact.get("left_out") or None,
            "count",
            "earlier answers, whose model alone understands it",
        ),
        Pair("call", fact["command_id"] or None, "code"),
        Pair("step", fact["step_id"], "code"),
    )
    over = [f"{one['model']}: {one['reason']}" for one in fact["passed_over"]]
    passed = [listed("Passed over", over)] if over else []
    return [facts, *passed, *candidates(fact.get("weighed"))]


def _dearer(usd_micros: int) -> str:
    """A difference in price, in words."""
    if not usd_micros:
        return "the same"
    return f"{usd(abs(usd_micros))} {'more' if usd_micros > 0 else 'less'}"


def usual_rates(seen: Seen) -> list[Section]:
    """The fabric's usual spending in a minute, as the run read it at its start."""
    rates = [
        f"{cap_words(one['scope'])}: {amount_words(one['usd_micros'], 'usd_micros')} and {amount_words(one['tokens'], 'tokens')} "
        f"in its busiest minute, over {one['runs']} runs"
        for one in seen.fact["rates"]
    ]
    return [listed("What is usual, as it was known when the run began", rates, f"{len(rates):,}")]


def cap_raised(seen: Seen) -> list[Section]:
    """Who gave the run more money, and how much it is."""
    fact = seen.fact
    return [
        pairs(
            "New cap",
            Pair("by", fact["actor"]),
            Pair("may spend", fact["cap_usd_micros"], "usd"),
            Pair("before", fact["before_usd_micros"], "usd"),
            Pair("question", fact["escalation_id"], "code"),
        )
    ]


def budget_raised(seen: Seen) -> list[Section]:
    """Who raised which other cap of the run, and how much it is."""
    fact = seen.fact
    money = fact["unit"] == "usd_micros"
    shape: Literal["usd", "count"] = "usd" if money else "count"
    return [
        pairs(
            "New cap",
            Pair("by", fact["actor"]),
            Pair("of", cap_words(fact["scope"])),
            Pair("may spend" if money else "tokens at most", fact["cap"], shape),
            Pair("before", fact["before"], shape),
            Pair("question", fact["escalation_id"], "code"),
        )
    ]


def resumed(seen: Seen) -> list[Section]:
    """Who."""
    return [pairs("Resumed", Pair("by", seen.fact["actor"]))]


def forked(seen: Seen) -> list[Section]:
    """Where it goes on from, and with what."""
    fact = seen.fact
    facts = pairs(
        "Goes on from",
        Pair("run", fact["origin_run_id"], "code"),
        Pair("event", fact["origin_seq"], "count"),
        Pair("its hash", fact["origin_hash"], "code"),
        Pair("edited", words(fact["edited"])),
    )
    kept = [words(one["stage"]) for one in fact["stages"]]
    kept += [f"branch {one['branch'] + 1} ({one['agent']})" for one in fact["branches"]]
    return [facts, listed("Kept", kept or ["nothing"])]


def content_kept(seen: Seen) -> list[Section]:
    """Whose content it is, and the content."""
    return [pairs("Taken over", Pair("of", words(seen.fact["what"]))), *content(seen.record, "Content")]


def output_kept(seen: Seen) -> list[Section]:
    """Which branch."""
    fact = seen.fact
    return [pairs("Kept", Pair("step", fact["step_id"], "code"), Pair("answer", fact["answer_ref"], "code"))]


def _by(title: str, seen: Seen) -> Section:
    fact = seen.fact
    return pairs(title, Pair("by", fact["actor"]), Pair("reason", fact["reason"] or "none was given"))
