"""What went wrong in a run, out of its journal: faults that make it happen again, and in words what cannot be made to.

Each failed call is named by its agent, stage and branch, and by the how-manieth of theirs it was. Totality over the causes that a journal can have: ``ATTEMPTS`` and
``DECISIONS``, by test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fabric.core.taxonomy import Cause, FailureType
from simulator.scenarios.parameters import Status

JSON = Any
Values = dict[str, JSON]
Event = tuple[int, str, Mapping[str, JSON]]
"""Its seq, its kind, its header."""
STATUSES: Final = Status.model_fields["status"].annotation.__args__  # type: ignore[union-attr]
FLOOD = 16
"""More calls than that in one turn are refused."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose model calls: counted among those of the same place."""

    agent: str
    stage: str
    branch: int | None

    def values(self) -> Values:
        """As a disturbance says it."""
        return {"agent": self.agent, "stage": self.stage} | ({"branch": self.branch} if self.branch else {})


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of a model call."""

    place: Place
    ordinal: int
    step: str


@dataclass
class Facts:
    """What a journal says went wrong. ``disturbances``: as a scenario has them, in the order in which they struck first."""

    disturbances: list[Values] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What cannot be made to happen again, a sentence each."""
    failure: FailureType | None = None
    """The row of the first decision; None: it was a direct one, or there was none."""
    decided: bool = False
    seed: int = 1
    """The run's own."""


def facts_of(events: Iterable[Event], cap_usd_micros: int) -> Facts:
    """What went wrong. ``cap_usd_micros``: the run's."""
    reading = _Reading(cap_usd_micros)
    for seq, kind, fact in events:
        READ.get(kind, _pass)(reading, seq, fact)
    return reading.facts()


def _pass(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    """An event that says of nothing that went wrong."""


class _Reading:
    """A journal on its way: the calls that went out, and what is to strike each."""

    def __init__(self, cap_usd_micros: int) -> None:
        self.cap = cap_usd_micros
        self.calls: dict[tuple[str, int], Call] = {}
        self.struck: dict[Call, tuple[str, Values]] = {}
        self.others: list[Values] = []
        self.left: dict[str, None] = {}
        self.answers: list[tuple[Call, str, int]] = []
        """Each answer: its call, its verdict, what it cost."""
        self.hashes: dict[str, list[str]] = defaultdict(list)
        """Fingerprints of the calls that each step proposed."""
        self.tools: dict[tuple[str, int], tuple[str, int]] = {}
        """Tool calls: the tool, and the how-manieth of it it was."""
        self.stuck: set[str] = set()
        """Steps that said the same thing again and again: their answers are struck as a whole, not one by one."""
        self.changes: dict[tuple[str, int], int] = {}
        self.asked = self.people = 0
        self.first: FailureType | None = None
        self.decided, self.seed = False, 1
        self._seen: Counter[object] = Counter()

    def count(self, key: object) -> int:
        """The how-manieth of those it is."""
        self._seen[key] += 1
        return self._seen[key]

    def unsent(self, key: tuple[str, int]) -> None:
        """Takes a call that never went out from the count."""
        if (call := self.calls.pop(key, None)) is not None:
            self._seen[call.place] -= 1

    def strike(self, call: Call | None, fault: str, **values: JSON) -> None:
        """Has a call struck; what was said of it before gives way."""
        if call is not None:
            self.struck.pop(call, None)
            self.struck[call] = (fault, values)

    def leave(self, sentence: str) -> None:
        """Says once what is not repeated."""
        self.left[sentence] = None

    def last(self, step: str = "", stage: str = "") -> Call | None:
        """The call of a step, or of a stage, that was answered last."""
        for call, _, _ in reversed(self.answers):
            if call.step == step if step else call.place.stage == stage:
                return call
        return None

    def dearest(self) -> tuple[Call, int] | None:
        """The answer that cost most."""
        return max(((call, cost) for call, _, cost in self.answers), key=lambda one: one[1], default=None)

    def facts(self) -> Facts:
        """Everything, calls that follow each other told together."""
        found: list[Values] = []
        runs: dict[object, Values] = {}
        order = {call: n for n, call in enumerate(self.calls.values())}
        for call in sorted(filter(lambda one: one.step not in self.stuck, self.struck), key=order.__getitem__):
            fault, values = self.struck[call]
            key = (call.place, fault, tuple(sorted(values.items())))
            before = runs.get(key)
            if before is not None and before["from_call"] + before["times"] == call.ordinal:
                before["times"] += 1
                continue
            runs[key] = {"fault": fault, **call.place.values(), "from_call": call.ordinal, "times": 1, **values}
            found.append(runs[key])
        return Facts([*found, *self.others], list(self.left), self.first, self.decided, self.seed)


# -- calls -------------------------------------------------------------------------------------------------------------


def _issued(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    key = (fact["command_id"], fact["attempt"])
    if fact["call"] == "tool":
        reading.tools[key] = (fact["target"], reading.count(("tool", fact["target"])))
        return
    stage, _, rest = fact["step_id"].partition(".")
    branch = rest.partition(".")[0]
    place = Place(fact["agent"], stage, int(branch) + 1 if stage == "fan_out" and branch.isdecimal() else None)
    reading.calls[key] = Call(place, reading.count(place), fact["step_id"])


def _intended(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.changes[fact["command_id"], fact["attempt"]] = reading.count("change")


def _answered(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    call = reading.calls.get((fact["command_id"], fact["attempt"]))
    if call is None:
        return
    reading.answers.append((call, fact["verdict"], fact["cost_usd_micros"]))
    reading.hashes[call.step] += [one["args_hash"] for one in fact["calls"]]
    if len(fact["calls"]) > FLOOD:
        reading.strike(call, "tool_flood", calls=len(fact["calls"]))
    if fact["verdict"] == "rejected":
        told = " ".join(fact["problems"])
        reading.strike(call, next((fault for words, fault in REJECTED if words in told), "off_schema"))


REJECTED: tuple[tuple[str, str], ...] = (
    ("cut off", "malformed"),
    ("is empty", "empty"),
    ("no JSON object", "malformed"),
)
"""Words of what is told of an answer that was refused, and what makes such a one; any other is of another shape."""


def _refused(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if fact["correction"]:
        unknown = fact["problem"].startswith("there is no tool")
        reading.strike(reading.last(fact["step_id"]), "unknown_tool" if unknown else "bad_arguments")


# -- attempts that failed ----------------------------------------------------------------------------------------------

Struck = Callable[[Mapping[str, JSON]], tuple[str, Values]]


def _limited(fact: Mapping[str, JSON]) -> tuple[str, Values]:
    after = fact["retry_after_s"]
    return ("rate_limit", {}) if after is None else ("rate_limit_retry_after", {"retry_after_s": float(after)})


def _unavailable(fact: Mapping[str, JSON]) -> tuple[str, Values]:
    return "unavailable", {"status": fact["status"] if fact["status"] in STATUSES else 503}


def _hung(fact: Mapping[str, JSON]) -> tuple[str, Values]:
    return "hang", {"billed": fact["charged_usd_micros"] > 0}


def _always(fault: str, **values: JSON) -> Struck:
    return lambda fact: (fault, dict(values))


FOLLOWS: Final = ""
"""A cause that follows from others, or from the engine's own limits: it comes again by itself."""
NO_FAULT: Final = "no fault of the catalogue makes it"

ATTEMPTS: Mapping[Cause, Struck | str] = {
    **dict.fromkeys(Cause, FOLLOWS),
    Cause.RATE_LIMIT: _limited,
    Cause.SERVER_ERROR: _unavailable,
    Cause.TIMEOUT: _hung,
    Cause.NETWORK: _always("unavailable", status=503),
    Cause.DROPPED_STREAM: _always("dropped_stream"),
    Cause.MALFORMED_ANSWER: _always("html"),
    Cause.CONTENT_FILTER: _always("unsafe", how="refused"),
    **dict.fromkeys(
        (Cause.AUTH, Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION, Cause.UNKNOWN_MODEL, Cause.CONTEXT_LENGTH), NO_FAULT
    ),
    **dict.fromkeys((Cause.TOKEN_LIMIT, Cause.QUOTA, Cause.UNKNOWN, Cause.PRICE_MISSING), NO_FAULT),
}
"""What an attempt of a model call failed of: what makes it fail so again, or why nothing does."""


def _failed(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
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


def _tool_failed(reading: _Reading, key: tuple[str, int], cause: Cause) -> None:
    tool, ordinal = reading.tools[key]
    if key in reading.changes:
        reading.others.append({"fault": "effect_lost_answer", "from_occurrence": reading.changes[key], "times": 1})
        return
    fault = "tool_hang" if cause is Cause.TIMEOUT else "tool_failed"
    reading.others.append({"fault": fault, "tool": tool, "from_call": ordinal, "times": 1})


def _tool_answered(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    key = (fact["command_id"], fact["attempt"])
    if not fact["error"] or key not in reading.tools:
        return
    tool, ordinal = reading.tools[key]
    if key in reading.changes:
        reading.others.append({"fault": "effect_refused", "from_occurrence": reading.changes[key], "times": 1})
    else:
        reading.others.append({"fault": "tool_error", "tool": tool, "from_call": ordinal, "times": 1})


def _not_undone(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    times = reading.count("undoing")
    reading.others[:] = [one for one in reading.others if one["fault"] != "compensation_fails"]
    reading.others.append({"fault": "compensation_fails", "times": times})


# -- decisions ---------------------------------------------------------------------------------------------------------

Deciding = Callable[["_Reading", int, Mapping[str, JSON]], None]


def _step_of(fact: Mapping[str, JSON]) -> dict[str, str]:
    """The step that a decision is about; else its stage."""
    if fact["step_id"]:
        return {"step": fact["step_id"]}
    scope = str(fact["cause"]["evidence"]["scope"])
    return {"stage": scope.removeprefix("stage:") if scope.startswith("stage:") else ""}


def _looped(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    step, details = fact["step_id"], fact["cause"]["evidence"]["details"]
    detector = details.get("detector", "A")
    if detector == "E":
        reading.stuck.add(step)
        _stuck(reading, seq, fact)
        return
    different = len(set(reading.hashes[step]))
    values: Values = {"period": min(3, max(2, different))} if detector == "B" else {"period": 1}
    before = [reading.struck[call] for call, _, _ in reading.answers if call.step == step and call in reading.struck]
    if before and before[0][0] in ("tool_loop", "paraphrased_loop", "tool_flood"):
        fault, values = before[0]  # One step, one loop: what it was taken for first.
    else:
        fault = "paraphrased_loop" if detector == "C" else "tool_loop"
    _every_call(reading, step, fault, {} if fault == "paraphrased_loop" else values)


def _every_call(reading: _Reading, step: str, fault: str, values: Values) -> None:
    for call, verdict, _ in list(reading.answers):
        if call.step == step and verdict == "calls":
            reading.strike(call, fault, **values)


def _fruitless(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if fact["step_id"].startswith("fan_out"):
        _every_call(reading, fact["step_id"], "fruitless_search", {})
    else:
        _stuck(reading, seq, fact)


def _planned_badly(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    told = fact["cause"]["message"]
    call = reading.last(**_step_of(fact)) or reading.last(stage="plan")
    if fact["cause"]["mechanism"] == "agent_loop":
        for each, verdict, _ in list(reading.answers):
            if each.step == fact["step_id"] and verdict == "rejected":
                reading.strike(each, "malformed_plan", how="no_json")
    elif "at most" in told:
        many = next((int(word) for word in told.replace(",", "").split() if word.isdecimal()), 100)
        reading.strike(call, "spawning", briefs=max(2, many))
    else:
        reading.strike(call, "malformed_plan", how="for_nobody" if "is not one of" in told else "no_briefs")


def _spent(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    found = reading.dearest()
    if found is None or found[1] * 2 < reading.cap:
        reading.leave(
            f"event {seq}, {fact['cause']['message']}: many calls spent it, and no single one that could be billed so"
        )
        return
    call, cost = found
    reading.strike(call, "cost_spike_price", cap_share=round(cost / reading.cap, 6))


def _ungrounded(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    told = str(fact["cause"]["message"]).split("'")
    reading.strike(reading.last(**_step_of(fact)), "ungrounded", document=told[1] if len(told) > 2 else "missing.md")


def _last_is(fault: str, **values: JSON) -> Deciding:
    def strike(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
        reading.strike(reading.last(**_step_of(fact)), fault, **values)

    return strike


def _unsure(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    score = float(fact["cause"]["evidence"]["observed"] or 0.0)
    reading.strike(reading.last(**_step_of(fact)), "low_confidence", score=min(1.0, max(0.0, score)))


def _filtered(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if fact["cause"]["mechanism"] == "agent_loop":
        reading.strike(reading.last(**_step_of(fact)), "unsafe", how="cut")


def _twins(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.strike(reading.last(stage="plan"), "twin_briefs")


def _stuck(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if {"fault": "supervisor_stuck"} not in reading.others:
        reading.others.append({"fault": "supervisor_stuck"})


DECISIONS: Mapping[Cause, Deciding | str] = {
    **dict.fromkeys(Cause, FOLLOWS),
    Cause.LOOP_DETECTED: _looped,
    Cause.NO_PROGRESS: _fruitless,
    Cause.PLAN_GATE: _planned_badly,
    Cause.BUDGET_GATE: _spent,
    Cause.COST_VELOCITY: _spent,
    Cause.GROUNDING: _ungrounded,
    Cause.SCHEMA_INVALID: _last_is("off_schema"),
    Cause.BELOW_TAU: _unsure,
    Cause.CONTENT_FILTER: _filtered,
    Cause.BRIEF_REPEATED: _twins,
    Cause.SUPERVISOR_STUCK: _stuck,
    **dict.fromkeys(
        (Cause.INVARIANT, Cause.POLICY_DENIED, Cause.TURN_LIMIT, Cause.HOP_LIMIT, Cause.RECURSION_LIMIT), NO_FAULT
    ),
    **dict.fromkeys((Cause.VISIT_LIMIT, Cause.HANDOFF_CYCLE, Cause.GOAL_UNMET, Cause.STALLED), NO_FAULT),
    **dict.fromkeys((Cause.RUN_DEADLINE, Cause.STAGE_DEADLINE, Cause.EVENT_CAP, Cause.PAYLOAD_CAP), NO_FAULT),
    **dict.fromkeys((Cause.RETRY_BUDGET_EMPTY, Cause.QUEUE_FULL, Cause.PENDING_CAP), "other runs had a part in it"),
}
"""What a decision was about: what makes it necessary again, or why nothing does. What it follows from was read where it happened."""


def _decided(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    if not reading.decided:
        reading.decided, row = True, fact["failure_type"]
        reading.first = FailureType(row) if row else None
    for one in (fact["cause"], *fact["causes"]):
        deciding = DECISIONS[Cause(one["cause"])]
        if not isinstance(deciding, str):
            deciding(reading, seq, {**fact, "cause": one})
        elif deciding:
            reading.leave(f"event {seq}, {one['cause'].replace('_', ' ')}: {deciding}")


# -- people, workers ---------------------------------------------------------------------------------------------------


def _began(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.seed = fact["seed"]


def _asked(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.asked += 1


def _said(reading: _Reading, seq: int, fact: Mapping[str, JSON]) -> None:
    reading.people += 1
    if fact["system"]:
        reading.others.append({"fault": "person_silent", "from_question": reading.people, "times": 1})
    elif fact["verb"] == "edit":
        reading.others.append({"fault": "person_edits", "times": 1})
    elif fact["verb"] != "reject":
        reading.leave(f"event {seq}, somebody answered {fact['verb']}: in a drill people reject what they are asked")


def _once(sentence: str) -> Deciding:
    return lambda reading, seq, fact: reading.leave(f"event {seq}, {sentence}")


READ: Mapping[str, Deciding] = {
    "run_started": _began,
    "call_issued": _issued,
    "escalation_opened": _asked,
    "mutation_intended": _intended,
    "model_answered": _answered,
    "tool_answered": _tool_answered,
    "call_refused": _refused,
    "attempt_failed": _failed,
    "compensation_failed": _not_undone,
    "reaction_decided": _decided,
    "escalation_decided": _said,
    "attempt_interrupted": _once(
        "a worker was gone in the middle of a call: that promises no decision, and is not repeated"
    ),
    "cancel_accepted": _once("somebody cancelled the run: that is not repeated"),
    "terminate_accepted": _once("somebody terminated the run: that is not repeated"),
    "child_answered": _once("a child came to its end: what went wrong in children is not repeated"),
}
"""Events that say of something that went wrong, or of who it went wrong with."""
