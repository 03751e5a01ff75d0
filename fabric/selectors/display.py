"""How events read to people: one row a kind in one table, total by test. The sentences have the numbers and leave out what the row's place says.

A summary is made of the fact alone, never of a content: it reads the same after those were erased. It has no instant, which could not be localised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

JSON = Any
Fact = Mapping[str, JSON]
Tone = Literal["neutral", "ok", "warn", "danger", "info", "human"]

REASON_CHARS = 240


class Display(NamedTuple):
    """How one kind is shown."""

    label: str
    """What happened, in two or three words."""
    tone: Tone
    icon: str
    """Name of the icon."""
    importance: Literal[0, 1, 2, 3]
    """3: a person should see it; 2: a landmark; 1: a step on the way; 0: detail."""
    summary: Callable[[Fact], str]


def summary_of(kind: str, fact: Fact) -> str:
    """The sentence for an event; what a newer version wrote is named by its kind."""
    row = EVENT_DISPLAY.get(kind)
    return row.summary(fact) if row is not None else kind.replace("_", " ")


# -- words for values --------------------------------------------------------------------------------------------------


def dollars(micros: int) -> str:
    """Micro-dollars as dollars, with as many digits as say something: ``$0.0003``, ``$1.20``, ``$0``."""
    if not micros:
        return "$0"
    return f"${micros / 1e6:.2f}" if micros >= 100_000 else f"${micros / 1e6:.6f}".rstrip("0")


def duration(seconds: float) -> str:
    """Seconds in the unit that fits: ``84 ms``, ``1.4 s``, ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.1f} ms" if 0.00005 <= seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def instant(micros: int) -> str:
    """An instant in microseconds with its date, UTC, to the minute."""
    return f"{datetime.fromtimestamp(micros / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def clock(micros: int) -> str:
    """An instant in microseconds as the time of day, UTC."""
    return f"{datetime.fromtimestamp(micros / 1e6, UTC):%H:%M:%S}"


def words(name: str) -> str:
    """``fan_out`` as ``fan-out``, everything else with blanks."""
    return name.replace("fan_", "fan-").replace("_", " ")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARS else f"{line[: REASON_CHARS - 3].rstrip()}..."


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _step(step_id: str) -> str:
    """``fan_out.1.e0.r0`` as ``fan-out 2``."""
    stage, _, rest = step_id.partition(".")
    branch = rest.partition(".")[0]
    return f"{words(stage)} {int(branch) + 1}" if stage == "fan_out" and branch.isdecimal() else words(stage)


def _charged(fact: Fact) -> str:
    return f"charged {dollars(fact['charged_usd_micros'])}" if fact["charged_usd_micros"] else ""


# -- lifecycle ---------------------------------------------------------------------------------------------------------


def _run_started(fact: Fact) -> str:
    by = f" for {fact['requested_by']}" if fact["requested_by"] else ""
    return f"{fact['fabric']} started{by}, {words(fact['tier'])}"


def _ownership_taken(fact: Fact) -> str:
    return f"another worker goes on from the journal (takeover {fact['fence']})"


def _gate(gate: JSON) -> str:
    """What a gate found, where it is worth saying."""
    if not gate:
        return ""
    score = f"score {gate['score']:.2f} of {gate['tau']:.2f} needed" if gate.get("score") is not None else ""
    if not gate.get("cause"):
        return score
    failed = gate["checks"][-1]
    problem = failed["problems"][0] if failed["problems"] else words(gate["cause"])
    return _joined(score, f"{gate['gate']}-gate refused it: {_cut(problem)}")


def _stage_entered(fact: Fact) -> str:
    agents = list(dict.fromkeys(fact["agents"]))
    who = (
        f"{_count(len(fact['agents']), 'branch', 'branches')} for {', '.join(agents)}"
        if len(fact["agents"]) > 1
        else ""
    )
    who = who or (agents[0] if agents else "")
    again = f"replan {fact['epoch']}" if fact["epoch"] else ""
    told = _joined(who, again, _gate(fact["gate"]))
    return f"{words(fact['stage'])} began: {told}" if told else f"{words(fact['stage'])} began"


_LEFT = {"passed": "passed", "replan": "given up for a new plan", "ended": "ended with the run"}


def _stage_left(fact: Fact) -> str:
    told = _gate(fact["gate"])
    return f"{words(fact['stage'])} {_LEFT[fact['outcome']]}" + (f": {told}" if told else "")


def _replanned(fact: Fact) -> str:
    return f"replan {fact['epoch']}, because {words(fact['stage'])} failed: {words(fact['reason'])}"


def _run_ending(fact: Fact) -> str:
    return f"ending as {fact['state']}: {_cut(fact['reason'])}"


def _run_ended(fact: Fact) -> str:
    how = " after recovery" if fact["recovered"] and fact["state"] == "completed" else ""
    partial = " The partial result is kept." if fact["partial"] else ""
    return f"{fact['state']}{how}: {_cut(fact['reason'])}{'.' if partial else ''}{partial}"


# -- calls -------------------------------------------------------------------------------------------------------------


def _step_opened(fact: Fact) -> str:
    again = f", attempt {fact['round'] + 1}" if fact["round"] else ""
    return f"{fact['agent']} takes up {_step(fact['step_id'])}{again}"


def _call_issued(fact: Fact) -> str:
    again = f", attempt {fact['attempt']}" if fact["attempt"] > 1 else ""
    if fact["call"] == "tool":
        return f"{fact['agent']} calls {fact['target']}{again}"
    last = ", for its last answer" if fact["final"] else ""
    held = f", at most {dollars(fact['reserved_usd_micros'])}" if fact["reserved_usd_micros"] else ""
    return f"{fact['agent']} asks {fact['target']}, turn {fact['turn']}{again}{last}{held}"


def _model_answered(fact: Fact) -> str:
    used = f"{fact['input_tokens']:,} + {fact['output_tokens']:,} tokens, {dollars(fact['cost_usd_micros'])}"
    if fact["verdict"] == "calls":
        tools = list(dict.fromkeys(call["tool"] for call in fact["calls"]))
        return f"proposed {_count(len(fact['calls']), 'call')} ({', '.join(tools)}): {used}"
    if fact["verdict"] == "rejected":
        problem = f": {_cut(fact['problems'][0])}" if fact["problems"] else ""
        return f"gave an answer that cannot be used{problem} ({used})"
    return f"answered: {used}"


def _tool_answered(fact: Fact) -> str:
    return f"{fact['tool']} returned an error" if fact["error"] else f"{fact['tool']} answered"


def _call_refused(fact: Fact) -> str:
    return f"{fact['tool']} was not called: {_cut(fact['problem'])}"


def _call_deduplicated(fact: Fact) -> str:
    return f"{fact['tool']} was asked the same again; its first answer stands"


def _output_accepted(fact: Fact) -> str:
    return f"the answer of {_step(fact['step_id'])} stands, its calls came back without an error"


def _handed_off(fact: Fact) -> str:
    return f"{fact['from_agent']} handed over to {fact['to_agent']}"


def _attempt_failed(fact: Fact) -> str:
    status = str(fact["status"]) if fact["status"] else ""
    after = f"Retry-After {duration(fact['retry_after_s'])}" if fact["retry_after_s"] is not None else ""
    told = _joined(status, after, _charged(fact))
    return f"attempt {fact['attempt']} failed, {words(fact['cause'])}: {_cut(fact['message'])}" + (
        f" ({told})" if told else ""
    )


def _attempt_interrupted(fact: Fact) -> str:
    return _joined(f"attempt {fact['attempt']} was lost with its worker", _charged(fact))


def _call_aborted(fact: Fact) -> str:
    return _joined(f"let go: {_cut(fact['reason'])}", _charged(fact))


def _late_result(fact: Fact) -> str:
    return f"a result came too late and is not used: {_cut(fact['reason'])}"


def _input_ignored(fact: Fact) -> str:
    return f"{words(fact['input_kind'])} changed nothing: {_cut(fact['reason'])}"


# -- decisions ---------------------------------------------------------------------------------------------------------


def _rung_skipped(fact: Fact) -> str:
    return f"{words(fact['reaction'])} was passed over: {_cut(fact['reason'])}"


def _why(trip: JSON) -> str:
    """The cause with its numbers: ``below tau: 0.55 < 0.70``."""
    seen = trip["evidence"]
    if trip["cause"] == "below_tau" and seen["limit"] is not None and seen["observed"] is not None:
        return f"below tau: {seen['observed']:.2f} < {seen['limit']:.2f}"
    return f"{words(trip['cause'])}: {_cut(trip['message'])}"


def _reaction_decided(fact: Fact) -> str:
    bound = f" {fact['spent'] + 1} of {fact['bound']}" if fact["bound"] else ""
    return f"{words(fact['reaction'])}{bound}, {_why(fact['cause'])}"


def _retry_scheduled(fact: Fact) -> str:
    source = "Retry-After" if fact["source"] == "retry_after" else "backoff"
    left = f"{fact['tokens_left'] / 1_000:.1f} retries left in the budget"
    return f"attempt {fact['attempt']} in {duration(fact['delay_s'])} ({source}), {left}"


def _message_injected(fact: Fact) -> str:
    return f"{_step(fact['step_id'])} was told what is wrong"


def _tools_stripped(fact: Fact) -> str:
    return f"{_step(fact['step_id'])} gets no more tools and answers with what it has"


def _step_failed(fact: Fact) -> str:
    return f"{_step(fact['step_id'])} failed, {words(fact['cause'])}: {_cut(fact['message'])}"


def _escalation_opened(fact: Fact) -> str:
    return f"{fact['required_role']} is asked: {_cut(fact['reason'])}"


def _escalation_reminded(fact: Fact) -> str:
    return "half of the time has passed" if fact["step"] == "reminder" else "three quarters of the time have passed"


_VERBS = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "answered"}


def _escalation_decided(fact: Fact) -> str:
    verb = _VERBS[fact["verb"]]
    return f"{verb} by the system: nobody answered in time" if fact["system"] else f"{verb} by {fact['actor']}"


def _escalation_withdrawn(fact: Fact) -> str:
    return f"no longer asked: {_cut(fact['reason'])}"


def _deadlines_suspended(fact: Fact) -> str:
    return f"the clocks stand still while people decide; {duration(fact['run_remaining_us'] / 1e6)} of the run are left"


def _deadlines_reissued(fact: Fact) -> str:
    return "the clocks of the stage and of the run go on"


def _cancel_accepted(fact: Fact) -> str:
    reason = f": {_cut(fact['reason'])}" if fact["reason"] else ""
    return f"{fact['actor']} cancelled the run{reason}"


EVENT_DISPLAY: Mapping[str, Display] = {
    "run_started": Display("Run started", "info", "play", 2, _run_started),
    "ownership_taken": Display("Worker changed", "warn", "swap", 1, _ownership_taken),
    "stage_entered": Display("Stage began", "info", "stage", 2, _stage_entered),
    "stage_left": Display("Stage ended", "ok", "gate", 2, _stage_left),
    "replanned": Display("New plan", "warn", "replan", 3, _replanned),
    "run_ending": Display("Run is ending", "warn", "stop", 2, _run_ending),
    "run_ended": Display("Run ended", "neutral", "flag", 3, _run_ended),
    "step_opened": Display("Step opened", "info", "agent", 1, _step_opened),
    "call_issued": Display("Call", "neutral", "call", 1, _call_issued),
    "model_answered": Display("Model answered", "ok", "model", 2, _model_answered),
    "tool_answered": Display("Tool answered", "ok", "tool", 1, _tool_answered),
    "call_refused": Display("Call refused", "warn", "block", 2, _call_refused),
    "call_deduplicated": Display("Call repeated", "neutral", "copy", 0, _call_deduplicated),
    "output_accepted": Display("Output accepted", "ok", "check", 1, _output_accepted),
    "handed_off": Display("Handed over", "info", "handoff", 2, _handed_off),
    "attempt_failed": Display("Attempt failed", "warn", "alert", 2, _attempt_failed),
    "attempt_interrupted": Display("Attempt lost", "warn", "plug", 2, _attempt_interrupted),
    "call_aborted": Display("Call let go", "neutral", "cut", 1, _call_aborted),
    "late_result_ignored": Display("Late result", "neutral", "late", 0, _late_result),
    "input_ignored": Display("Without effect", "neutral", "ignore", 0, _input_ignored),
    "rung_skipped": Display("Option passed over", "neutral", "skip", 1, _rung_skipped),
    "reaction_decided": Display("Decision", "warn", "decide", 3, _reaction_decided),
    "retry_scheduled": Display("Retry", "warn", "retry", 2, _retry_scheduled),
    "message_injected": Display("Correction", "warn", "message", 2, _message_injected),
    "tools_stripped": Display("Tools taken away", "warn", "strip", 2, _tools_stripped),
    "step_failed": Display("Step failed", "danger", "fail", 3, _step_failed),
    "escalation_opened": Display("Question to a person", "human", "ask", 3, _escalation_opened),
    "escalation_reminded": Display("Reminder", "human", "bell", 1, _escalation_reminded),
    "escalation_decided": Display("Answered", "human", "answer", 3, _escalation_decided),
    "escalation_withdrawn": Display("Question withdrawn", "human", "withdraw", 2, _escalation_withdrawn),
    "deadlines_suspended": Display("Clocks stopped", "human", "pause", 1, _deadlines_suspended),
    "deadlines_reissued": Display("Clocks restarted", "human", "clock", 1, _deadlines_reissued),
    "cancel_accepted": Display("Cancelled", "warn", "cancel", 3, _cancel_accepted),
}
"""One row a kind of event."""


def tone_of(kind: str, fact: Fact) -> Tone:
    """The row's tone, or a graver one where the fact itself says so: a failed gate, an answer that cannot be used, a bad end."""
    row = EVENT_DISPLAY.get(kind)
    if row is None:
        return "neutral"
    if kind == "run_ended":
        return _END_TONES.get(fact.get("state", ""), "danger")
    bad = fact.get("error") or fact.get("verdict") == "rejected" or (fact.get("gate") or {}).get("cause")
    return "warn" if bad or (kind == "stage_left" and fact.get("outcome") != "passed") else row.tone


_END_TONES: Mapping[str, Tone] = {"completed": "ok", "cancelled": "warn"}

# -- what a row is about -----------------------------------------------------------------------------------------------

COMPACT_MIN = 2
"""Importance from which the compact list shows a kind: decisions, trips, stage edges, questions to people, results."""

DETAILS: frozenset[str] = frozenset(kind for kind, row in EVENT_DISPLAY.items() if row.importance < COMPACT_MIN)
"""Kinds that the compact list leaves out. What a newer version wrote is shown: nobody here can say that it is a detail."""


def step_of(fact: Fact) -> str:
    """The step that a fact is about, ``fan_out.1.e0.r0``; empty when it is about no single one."""
    return str(fact.get("step_id") or str(fact.get("command_id") or "").rpartition(".t")[0])


def stage_of(fact: Fact) -> str:
    """The stage that a fact is about; empty when it is about the run."""
    scope = str(fact.get("scope") or "").partition(":")[2]
    return str(fact.get("stage") or (step_of(fact) or scope).partition(".")[0])


def _always(fact: Fact) -> bool:
    return True


def _gate_refused(fact: Fact) -> bool:
    return bool((fact.get("gate") or {}).get("cause"))


EVENT_FAILS: Mapping[str, Callable[[Fact], bool]] = {
    "stage_entered": _gate_refused,
    "stage_left": lambda fact: _gate_refused(fact) or fact.get("outcome") != "passed",
    "replanned": _always,
    "run_ending": lambda fact: fact.get("state") != "completed",
    "run_ended": lambda fact: fact.get("state") != "completed",
    "model_answered": lambda fact: fact.get("verdict") == "rejected",
    "tool_answered": lambda fact: bool(fact.get("error")),
    "call_refused": _always,
    "attempt_failed": _always,
    "attempt_interrupted": _always,
    "reaction_decided": _always,
    "step_failed": _always,
    "escalation_opened": lambda fact: fact.get("item") == "failure",
}
"""Kinds that may tell of a failure, and when they do: what "failed only" shows."""


def failed(kind: str, fact: Fact) -> bool:
    """Whether the event tells of something that went wrong, or of what was done about it."""
    return kind in EVENT_FAILS and EVENT_FAILS[kind](fact)
