"""Faults that repeat the failures of a journal, and sentences about failures that cannot be repeated.

Each failed call is named by its agent, stage, branch and number. ``ATTEMPTS`` and ``DECISIONS`` are total, by test,
over the causes that a journal can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fabric.core.values.taxonomy import Cause, FailureType
from fabric.core.values.units import JSON
from simulator.drills.library.calls import Call, Facts, Place, Reading, Values
from simulator.faults.fault import Status

Event = tuple[int, str, Mapping[str, JSON]]
"""Its seq, its kind, its header."""
STATUSES: Final = Status.model_fields["status"].annotation.__args__  # type: ignore[union-attr]
FLOOD = 16
"""More calls than that in one turn are refused."""


def build_facts(events: Iterable[Event], cap_usd_micros: int) -> Facts:
    """Failures of a run. ``cap_usd_micros``: the run's cap."""
    reading = Reading(cap_usd_micros)
    for seq, kind, fact in events:
        READ.get(kind, _pass)(reading, seq, fact)
    return reading.facts()


def _pass(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    """An event that says of nothing that went wrong."""


# -- calls -----------------------------------------------------------------------------------------------------------


def _read_call(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    key = (fact["command_id"], fact["attempt"])
    if fact["call"] == "tool":
        reading.tools[key] = (fact["target"], reading.count(("tool", fact["target"])))
        return
    stage, _, rest = fact["step_id"].partition(".")
    branch = rest.partition(".")[0]
    place = Place(fact["agent"], stage, int(branch) + 1 if stage == "fan_out" and branch.isdecimal() else None)
    reading.calls[key] = Call(place, reading.count(place), fact["step_id"])


def _read_intent(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.changes[fact["command_id"], fact["attempt"]] = reading.count("change")


def _read_answer(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    call = reading.calls.get((fact["command_id"], fact["attempt"]))
    if call is None:
        return
    reading.answers.append((call, fact["verdict"], fact["cost_usd_micros"]))
    reading.hashes[call.step] += [one["args_hash"] for one in fact["calls"]]
    if len(fact["calls"]) > FLOOD:
        reading.strike(call, "flood", calls=len(fact["calls"]))
    if fact["verdict"] == "rejected":
        told = " ".join(fact["problems"])
        reading.strike(call, next((fault for words, fault in REJECTED if words in told), "off_schema"))


REJECTED: tuple[tuple[str, str], ...] = (
    ("cut off", "malformed"),
    ("is empty", "empty"),
    ("no JSON object", "malformed"),
)
"""Words in the message about a refused answer, and the fault that causes it. Other messages: another shape."""


def _read_refusal(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if fact["correction"]:
        unknown = fact["problem"].startswith("there is no tool")
        reading.strike(reading.last(fact["step_id"]), "unknown_tool" if unknown else "bad_arguments")


# -- attempts that failed --------------------------------------------------------------------------------------------

Struck = Callable[[Mapping[str, JSON]], tuple[str, Values]]


def _read_limit(fact: Mapping[str, JSON]) -> tuple[str, Values]:
    after = fact["retry_after_s"]
    return ("rate_limit", {}) if after is None else ("retry_after", {"retry_after_s": float(after)})


def _unavailable(fact: Mapping[str, JSON]) -> tuple[str, Values]:
    return "unavailable", {"status": fact["status"] if fact["status"] in STATUSES else 503}


def _hung(fact: Mapping[str, JSON]) -> tuple[str, Values]:
    return "hang_billed" if fact["charged_usd_micros"] > 0 else "hang", {}


def _always(fault: str, **values: JSON) -> Struck:
    return lambda fact: (fault, dict(values))


FOLLOWS: Final = ""
"""A cause that follows from others, or from the engine's own limits: it comes again by itself."""
NO_FAULT: Final = "no fault of the catalogue makes it"

ATTEMPTS: Mapping[Cause, Struck | str] = {
    **dict.fromkeys(Cause, FOLLOWS),
    Cause.RATE_LIMIT: _read_limit,
    Cause.SERVER_ERROR: _unavailable,
    Cause.TIMEOUT: _hung,
    Cause.NETWORK: _always("unavailable", status=503),
    Cause.DROPPED_STREAM: _always("dropped_stream"),
    Cause.MALFORMED_ANSWER: _always("html"),
    Cause.CONTENT_FILTER: _always("filtered"),
    **dict.fromkeys(
        (Cause.AUTH, Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION, Cause.UNKNOWN_MODEL, Cause.CONTEXT_LENGTH), NO_FAULT
    ),
    **dict.fromkeys((Cause.TOKEN_LIMIT, Cause.QUOTA, Cause.UNKNOWN, Cause.PRICE_MISSING), NO_FAULT),
}
"""Return the fault that repeats the failure of a model attempt, or the reason for none."""


def _read_failure(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    key, cause = (fact["command_id"], fact["attempt"]), Cause(fact["cause"])
    if key in reading.tools:
        _tool_failed(reading, key, cause)
        return
    if fact["trip"] is not None:
        reading.unsent(key)  # A breaker or a budget spoke, and will again.
        return
    struck = ATTEMPTS[cause]
    if isinstance(struck, str):
        if struck:
            reading.leave(f"event {seq}, a call that failed of {cause.replace('_', ' ')}: {struck}")
        return
    fault, values = struck(fact)
    reading.strike(reading.calls.get(key), fault, **values)


def _tool_failed(reading: Reading, key: tuple[str, int], cause: Cause) -> None:
    tool, ordinal = reading.tools[key]
    if key in reading.changes:
        reading.others.append({"fault": "effect_lost_answer", "from_occurrence": reading.changes[key], "times": 1})
        return
    if cause is Cause.RETRY_ASKED:
        reading.leave(f"{tool} asked to be called once more: {NO_FAULT}")
        return
    fault = "tool_hang" if cause is Cause.TIMEOUT else "tool_failed"
    reading.others.append({"fault": fault, "tool": tool, "from_call": ordinal, "times": 1})


def _tool_answered(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    key = (fact["command_id"], fact["attempt"])
    if not fact["error"] or key not in reading.tools:
        return
    tool, ordinal = reading.tools[key]
    if key in reading.changes:
        reading.others.append({"fault": "effect_refused", "from_occurrence": reading.changes[key], "times": 1})
    else:
        reading.others.append({"fault": "tool_error", "tool": tool, "from_call": ordinal, "times": 1})


def _not_undone(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    times = reading.count("undoing")
    reading.others[:] = [one for one in reading.others if one["fault"] != "compensation_fails"]
    reading.others.append({"fault": "compensation_fails", "times": times})


# -- decisions -------------------------------------------------------------------------------------------------------

Deciding = Callable[["Reading", int, Mapping[str, JSON]], None]


def _build_step(fact: Mapping[str, JSON]) -> dict[str, str]:
    """The step that a decision is about; else its stage."""
    if fact["step_id"]:
        return {"step": fact["step_id"]}
    scope = str(fact["cause"]["evidence"]["scope"])
    return {"stage": scope.removeprefix("stage:") if scope.startswith("stage:") else ""}


def _read_loop(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    step, details = fact["step_id"], fact["cause"]["evidence"]["details"]
    detector = details.get("detector", "identical_calls")
    if detector == "same_answer":
        reading.stuck.add(step)
        return  # The gate that gave the answer back was decided about before.
    before = [reading.struck[call] for call, _, _ in reading.answers if call.step == step and call in reading.struck]
    fault, values = _loop(detector, len(set(reading.hashes[step])))
    if before and before[0][0] in (*LOOPS, "flood"):
        fault, values = before[0]  # One step has one loop: the one that it was taken for first.
    _every_call(reading, step, fault, values)


LOOPS = ("tool_loop", "tool_loop_of_2", "tool_loop_of_3", "tool_loop_paraphrased")


def _loop(detector: str, different: int) -> tuple[str, Values]:
    if detector == "near_identical_calls":
        return "tool_loop_paraphrased", {}
    if detector == "repeated_cycle":
        return f"tool_loop_of_{min(3, max(2, different))}", {}
    return "tool_loop", {}


def _every_call(reading: Reading, step: str, fault: str, values: Values) -> None:
    for call, verdict, _ in list(reading.answers):
        if call.step == step and verdict == "calls":
            reading.strike(call, fault, **values)


def _fruitless(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if fact["step_id"].startswith("fan_out"):
        _every_call(reading, fact["step_id"], "fruitless_search", {})
    else:
        _read_stuck(reading, seq, fact)


def _planned_badly(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    told = fact["cause"]["message"]
    call = reading.last(**_build_step(fact)) or reading.last(stage="plan")
    if fact["cause"]["mechanism"] == "agent_loop":
        for each, verdict, _ in list(reading.answers):
            if each.step == fact["step_id"] and verdict == "rejected":
                reading.strike(each, "bad_plan", how="no_json")
    elif "at most" in told:
        many = next((int(word) for word in told.replace(",", "").split() if word.isdecimal()), 100)
        reading.strike(call, "spawning", briefs=max(2, many))
    else:
        reading.strike(call, "bad_plan", how="for_nobody" if "is not one of" in told else "no_briefs")


def _read_spending(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    found = reading.dearest()
    if found is None or found[1] * 2 < reading.cap:
        reading.leave(
            f"event {seq}, {fact['cause']['message']}: many calls spent it, and no single one that could be billed so"
        )
        return
    call, cost = found
    reading.strike(call, "cost_spike_price", cap_share=round(cost / reading.cap, 6))


def _read_ungrounded(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    told = str(fact["cause"]["message"]).split("'")
    reading.strike(reading.last(**_build_step(fact)), "ungrounded", document=told[1] if len(told) > 2 else "missing.md")


def _last_is(fault: str, **values: JSON) -> Deciding:
    def strike(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
        reading.strike(reading.last(**_build_step(fact)), fault, **values)

    return strike


def _unsure(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    score = float(fact["cause"]["evidence"]["observed"] or 0.0)
    reading.strike(reading.last(**_build_step(fact)), "unsure", score=min(1.0, max(0.0, score)))


def _read_filter(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if fact["cause"]["mechanism"] == "agent_loop":
        reading.strike(reading.last(**_build_step(fact)), "filtered_answer")


def _read_repetition(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if tuple(fact["cause"]["evidence"]["details"].get("cycle", ())) in reading.moves:
        _went_round("the_same")(reading, seq, fact)
    else:
        reading.strike(reading.last(stage="plan"), "twin_briefs")


def _went_round(how: str) -> Deciding:
    """Let agents that handed on in a circle do so again, all the time. ``the_same`` words beat news, which the hop
    limit stops as well.
    """

    def strike(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
        peers = next((n for n in (2, 3) if _closes(reading.moves[-n:], n)), 0)
        before = next((one for one in reading.others if one["fault"] in CIRCLES.values()), None)
        if before is not None:
            before["how"] = "the_same" if how == "the_same" else before["how"]
        elif peers:
            reading.others.append({"fault": CIRCLES[peers], "how": how})
        else:
            reading.leave(f"event {seq}, {fact['cause']['cause'].replace('_', ' ')}: {NO_FAULT}")

    return strike


CIRCLES: Mapping[int, str] = {2: "handoff_cycle", 3: "handoff_cycle_of_3"}
"""The fault of a circle, by its agents."""


def _closes(moves: Sequence[tuple[str, str]], peers: int) -> bool:
    """Return True if the last moves are a circle of that many."""
    ends = [to for _, to in moves]
    return len(moves) == peers == len(set(moves)) and [who for who, _ in moves] == [ends[-1], *ends[:-1]]


def _read_stuck(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if {"fault": "supervisor_stuck"} not in reading.others:
        reading.others.append({"fault": "supervisor_stuck"})


DECISIONS: Mapping[Cause, Deciding | str] = {
    **dict.fromkeys(Cause, FOLLOWS),
    Cause.LOOP_DETECTED: _read_loop,
    Cause.NO_PROGRESS: _fruitless,
    Cause.PLAN_GATE: _planned_badly,
    Cause.BUDGET_GATE: _read_spending,
    Cause.COST_VELOCITY: _read_spending,
    Cause.GROUNDING: _read_ungrounded,
    Cause.SCHEMA_INVALID: _last_is("off_schema"),
    Cause.BELOW_TAU: _unsure,
    Cause.CONTENT_FILTER: _read_filter,
    Cause.BRIEF_REPEATED: _read_repetition,
    Cause.HANDOFF_CYCLE: _went_round("the_same"),
    Cause.HOP_LIMIT: _went_round("something_new"),
    Cause.SUPERVISOR_STUCK: _read_stuck,
    **dict.fromkeys((Cause.INVARIANT, Cause.POLICY_DENIED, Cause.TURN_LIMIT, Cause.RECURSION_LIMIT), NO_FAULT),
    **dict.fromkeys((Cause.PERSONA_VIOLATION, Cause.WORKSPACE_POLICY), NO_FAULT),
    Cause.INJECTED_INSTRUCTION: NO_FAULT,
    **dict.fromkeys((Cause.VISIT_LIMIT, Cause.GOAL_UNMET, Cause.STALLED), NO_FAULT),
    **dict.fromkeys((Cause.RUN_DEADLINE, Cause.STAGE_DEADLINE, Cause.EVENT_CAP, Cause.PAYLOAD_CAP), NO_FAULT),
    **dict.fromkeys(
        (Cause.RETRY_BUDGET_EMPTY, Cause.QUEUE_FULL, Cause.PENDING_CAP, Cause.KEY_CAP), "other runs had a part in it"
    ),
}
"""Return the fault that makes a decision necessary again, or the reason for none. Its own causes were read where
they happened.
"""


def _read_decision(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if not reading.decided:
        reading.decided, row = True, fact["failure_type"]
        reading.first = FailureType(row) if row else None
    for one in (fact["cause"], *fact["causes"]):
        deciding = DECISIONS[Cause(one["cause"])]
        if not isinstance(deciding, str):
            deciding(reading, seq, {**fact, "cause": one})
        elif deciding:
            reading.leave(f"event {seq}, {one['cause'].replace('_', ' ')}: {deciding}")


# -- people, workers -------------------------------------------------------------------------------------------------


def _read_handoff(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.moves.append((fact["from_agent"], fact["to_agent"]))


def _began(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.seed = fact["seed"]


def _read_review(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    editable = reading.count("editable review") if "edit" in fact["verbs"] else 0
    reading.reviews[fact["review_id"]] = reading.count("review"), editable


def _read_message(reading: Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    ordinal, editable = reading.reviews[fact["review_id"]]
    if fact["system"]:
        reading.others.append({"fault": "person_silent", "from_review": ordinal, "times": 1})
    elif fact["verb"] == "edit":
        reading.others.append({"fault": "person_edits", "from_review": editable, "times": 1})
    elif fact["verb"] != "reject":
        reading.leave(f"event {seq}, a person answered {fact['verb']}: in a drill people reject what they are asked")


def _once(sentence: str) -> Deciding:
    return lambda reading, seq, fact: reading.leave(f"event {seq}, {sentence}")


READ: Mapping[str, Deciding] = {
    "run_started": _began,
    "call_issued": _read_call,
    "handed_off": _read_handoff,
    "review_opened": _read_review,
    "mutation_intended": _read_intent,
    "model_answered": _read_answer,
    "tool_answered": _tool_answered,
    "call_refused": _read_refusal,
    "attempt_failed": _read_failure,
    "compensation_failed": _not_undone,
    "reaction_decided": _read_decision,
    "review_decided": _read_message,
    "attempt_interrupted": _once(
        "a worker was gone in the middle of a call: that promises no decision, and is not repeated"
    ),
    "cancel_accepted": _once("a person cancelled the run: that is not repeated"),
    "terminate_accepted": _once("a person terminated the run: that is not repeated"),
    "child_answered": _once("a child came to its end: what went wrong in children is not repeated"),
}
"""Events that say of something that went wrong, or of who it went wrong with."""
