"""What can go wrong, as data: each fault has a name, a place and a sentence, and each seed gives some of them a rate.

A fault that no seed ever meets proves nothing, so the world counts each time one strikes (``World.sometimes``), under its name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

Place = Literal["model", "answer", "tool", "service", "process", "store", "inbox", "human"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to go wrong. ``top`` is the highest rate that a seed may give it: a share of the chances it has to strike."""

    place: Place
    says: str
    top: float


FAULTS: Mapping[str, Fault] = {
    # A model call that brings no answer.
    "rate_limit": Fault("model", "429 without Retry-After", 0.5),
    "retry_after": Fault("model", "429 with a Retry-After that can be waited for", 0.5),
    "retry_after_long": Fault("model", "429 with a Retry-After over the cap", 0.1),
    "unavailable": Fault("model", "503", 0.6),
    "timeout": Fault("model", "no answer before the call's deadline, and nothing billed", 0.3),
    "timeout_billed": Fault("model", "no answer before the call's deadline, and billed all the same", 0.3),
    "network": Fault("model", "the connection breaks", 0.4),
    "bad_key": Fault("model", "401: the endpoint does not know the key", 0.05),
    "quota": Fault("model", "the account's quota is spent", 0.05),
    "filtered": Fault("model", "the endpoint's content filter refuses the request", 0.05),
    "dropped_stream": Fault("model", "the connection breaks in the middle of an answer that streams in", 0.4),
    "straggler": Fault("model", "an answer that takes many times as long as the others", 0.4),
    "refused_answer": Fault("model", "an answer that cannot be used, whose bill is known", 0.3),
    # An answer that is not what was asked for.
    "malformed": Fault("answer", "JSON that is cut off", 0.4),
    "off_schema": Fault("answer", "JSON of another shape", 0.4),
    "empty": Fault("answer", "an empty answer", 0.3),
    "untyped": Fault("answer", "data that does not fit the schema of the agent's author", 0.5),
    "bad_plan": Fault("answer", "a plan for a worker that does not exist", 0.4),
    "big_plan": Fault("answer", "a plan with more briefs than allowed", 0.3),
    "bad_citation": Fault("answer", "a citation of a document that is not attached", 0.3),
    "unsure": Fault("answer", "a critic's score below tau", 0.7),
    "filtered_answer": Fault("answer", "an answer that the content filter cut", 0.05),
    "same_call": Fault("answer", "a step that proposes one call again and again", 0.3),
    "period_two": Fault("answer", "a step that proposes two calls in turn, again and again", 0.3),
    "changing_loop": Fault("answer", "a step that repeats one call whose result always changes", 0.3),
    "chatter": Fault("answer", "a step that calls tools for ever, always with other arguments", 0.2),
    "same_id": Fault("answer", "a step that proposes one call again under the id it had", 0.2),
    "twin_briefs": Fault("answer", "a plan that gives one worker the same brief twice", 0.4),
    "fruitless": Fault("answer", "a step that asks something else each time, and always gets the same answer", 0.4),
    "unknown_tool": Fault("answer", "a call of a tool that was not offered", 0.3),
    "bad_arguments": Fault("answer", "arguments that are no JSON, or do not fit the tool", 0.3),
    "flood": Fault("answer", "more calls in one answer than are executed", 0.2),
    "twin_calls": Fault("answer", "one call id twice, with the same or with other arguments", 0.3),
    "nameless_call": Fault("answer", "a call without an id", 0.2),
    "eager_output": Fault("answer", "an output that comes together with calls", 0.4),
    "objects": Fault("answer", "a judge, or what an oracle asks, says no", 0.5),
    "votes_for_nobody": Fault("answer", "a verdict, or a vote, for somebody who is no side", 0.5),
    "cost_spike": Fault("answer", "an answer that costs more than was reserved", 0.1),
    "dear_answer": Fault(
        "answer", "an answer that costs far more than was reserved, while its cap has room for it", 0.3
    ),
    "own_parts": Fault(
        "answer", "an answer with parts of its provider's own, kinds of tokens, and a count that is not believed", 0.3
    ),
    # Tools.
    "tool_error": Fault("tool", "the tool answers with an error", 0.3),
    "tool_timeout": Fault("tool", "the tool does not return before the call's deadline", 0.2),
    "tool_failed": Fault("tool", "the tool's adapter fails", 0.2),
    "server_asks": Fault("tool", "the tool's server asks a person in the middle of the call", 0.3),
    # Processes.
    "crash": Fault("process", "the process dies at an effect", 0.04),
    "sudden_death": Fault("process", "the process dies at some instant", 0.6),
    "pause": Fault("process", "the process stands still for longer than its lease, then goes on (a zombie)", 0.03),
    "deaf": Fault("process", "heartbeats are lost while the process works on", 0.3),
    "retired": Fault("process", "the incarnation is retired while its process lives", 0.5),
    "soft_stop": Fault(
        "process", "the process is asked to stop: it lets calls finish for a while, then gives up what is left", 0.3
    ),
    "late_result": Fault("process", "the result of a call that was let go of, or timed out, still comes", 1.0),
    "twin_result": Fault("process", "a result is delivered twice", 0.3),
    "slow_result": Fault("process", "a result is held up and overtaken by others", 0.3),
    # The database.
    "commit_lost": Fault("store", "the answer to a commit is lost, and so was the commit", 0.1),
    "commit_landed": Fault("store", "the answer to a commit is lost, and the commit landed", 0.1),
    "busy": Fault("store", "the database is busy", 0.1),
    "away": Fault("store", "the database is away", 0.1),
    "slow_commit": Fault("store", "a commit takes seconds", 0.1),
    "commit_late": Fault(
        "store", "the answer to a commit is lost, and the commit lands after its fate was asked for", 0.1
    ),
    "claim_landed": Fault("store", "the answer to a claim is lost, and the claim landed", 0.1),
    "claim_away": Fault("store", "the database is away when runs are claimed", 0.1),
    "damage": Fault("store", "what a claim reads of a journal or a snapshot is not what was written", 0.2),
    # The inbox and who writes to it.
    "nudge_lost": Fault("inbox", "the nudge after an insert is lost", 0.8),
    "twin_input": Fault("inbox", "an input is inserted twice under one id", 0.6),
    "late_twin_input": Fault("inbox", "an input is inserted again much later", 0.5),
    "cancel": Fault("inbox", "the run is cancelled at some instant", 0.5),
    "cancel_at_end": Fault("inbox", "the run is cancelled as it ends", 0.4),
    "terminate": Fault("inbox", "the run is terminated at some instant", 0.3),
    "held": Fault("inbox", "the run is paused at some instant, and resumed later", 0.8),
    "held_for_long": Fault("inbox", "a paused run is not resumed before everything else has come to rest", 0.3),
    "fork": Fault("inbox", "a run that has ended is forked from one of its events", 0.3),
    # People.
    "double_click": Fault("human", "a decision is sent twice, each under its own id", 1.0),
    "two_reviewers": Fault("human", "two people decide, differently", 0.8),
    "stale_digest": Fault("human", "a decision about something else than what is asked", 0.4),
    "late_decision": Fault("human", "a decision comes after the question has expired", 0.5),
    "wrong_verb": Fault("human", "a decision that is not possible here", 0.2),
    "undone": Fault("human", "a decision is taken back at the last moment", 0.8),
    "silent": Fault("human", "nobody answers", 0.3),
    "self_approval": Fault("human", "whoever started the run answers what it asks", 0.3),
    "role_lost": Fault("human", "whoever answers loses their roles before the run takes it", 0.4),
    "last_minute": Fault("human", "a decision in whose undo window the question is due", 0.3),
    # A service outside that tools change.
    "effect_lost_answer": Fault("service", "it does what is asked, and its answer is lost", 0.4),
    "effect_not_done": Fault("service", "it does nothing and says nothing", 0.3),
    "effect_refused": Fault("service", "it refuses", 0.3),
    "effect_never_sent": Fault("service", "the request never reaches it, and that is known", 0.3),
    "compensation_fails": Fault("service", "it cannot undo it now", 0.6),
    "compensation_stuck": Fault("service", "it cannot undo it for as long as things go wrong", 0.3),
    "reconcile_fails": Fault("service", "it does not say what it has done", 0.5),
}
"""Every fault, by name."""

LATER = (
    *("twin_briefs", "fruitless", "objects", "self_approval", "role_lost", "untyped", "votes_for_nobody"),
    "dropped_stream",
)
"""Faults that are drawn by themselves, so that the seeds without them stay as they were."""
SELDOM = ("dear_answer", "refused_answer", "server_asks", "own_parts")
"""Faults of few seeds, drawn behind all others, so that nearly every seed stays as it was."""
DENSITIES = (0.0, 0.1, 0.25, 0.5)
"""Which share of the faults a seed has: swarm testing wants runs where few things go wrong as much as runs where many do."""
SCALES = (0.1, 0.3, 1.0)
OFTEN = frozenset(
    {
        *("late_result", "same_call", "period_two", "double_click", "two_reviewers", "unsure"),
        *(
            "effect_refused",
            "effect_never_sent",
            "effect_lost_answer",
            "effect_not_done",
            "compensation_fails",
            "compensation_stuck",
            "reconcile_fails",
        ),
    }
)
"""Faults that matter only together with others, and so are drawn more often."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each fault strikes in one seed; one that is not named never does."""

    rates: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.rates.get(name, 0.0)


NONE = Rates({})
"""No faults: the liveness phase."""


def draw(rng: Random) -> Rates:
    """A random subset of the faults with random rates."""
    density, scale = rng.choice(DENSITIES), rng.choice(SCALES)
    often = 0.35 if density else 0.0
    return Rates(
        {
            name: fault.top * (1.0 if name in OFTEN else scale)
            for name, fault in FAULTS.items()
            if name not in (*LATER, *SELDOM) and rng.random() < (max(density, often) if name in OFTEN else density)
        }
    )


def with_later(rates: Rates, rng: Random) -> Rates:
    """The rates with those of the later faults, where any other strikes too."""
    if not rates.rates:
        return rates
    later = {name: FAULTS[name].top for name in LATER if rng.random() < 0.25}
    later |= {name: FAULTS[name].top for name in SELDOM if rng.random() < 0.06}
    return Rates({**rates.rates, **later})
