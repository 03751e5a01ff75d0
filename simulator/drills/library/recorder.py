"""Reads a run's journal for its recording: how each call ended and when, and what people did.

Contents are read as pages show them: credentials are masked, and a note says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.values.units import JSON, US
from simulator.scenarios.spec.recorded import MARKS

Values = dict[str, Any]
Key = tuple[str, int]
"""Command and attempt."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event with its content. ``at``: microseconds since the epoch."""

    seq: int
    kind: str
    at: int
    fact: Mapping[str, JSON]
    content: Any = None
    """Content with credentials masked; None: it has none, or it was erased."""
    erased: bool = False
    """True: it had a content, which is kept no more."""


@dataclass
class Recording:
    """A run's recording, in the form of a scenario. ``notes``: a sentence for each part that is not replayed."""

    parts: list[Values] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    whole: bool = True
    """False: a content is missing, without which the calls would not repeat."""
    children: dict[str, str] = field(default_factory=dict)
    """Command of each child run, by the child's id."""


class Reader:
    """Reads the journal of one run of a family. ``child``: commands that lead to it, joined by ``>``."""

    def __init__(self, child: str = "") -> None:
        self.found = Recording()
        self._child = {"child": child} if child else {}
        self._began = self._marks = 0
        self._issued: dict[Key, tuple[int, Mapping[str, Any]]] = {}
        self._ended: dict[Key, Values] = {}
        self._interrupted: list[Key] = []
        self._reviews: dict[str, tuple[int, int]] = {}
        """Each review: its number, and when it opened."""
        self._answers: dict[str, list[Values]] = {}
        self._decided: str = ""
        self._seen: Counter[str] = Counter()

    def read(self, events: Iterable[RecordedEvent]) -> Recording:
        """Return the recording of all events."""
        ended = False
        for event in events:
            ended = ended or event.kind == "run_ended"
            self._marks += event.kind in MARKS
            READ.get(event.kind, _pass)(self, event)
        for command, attempt in self._interrupted:
            later = self._ended.get((command, attempt + 1))
            if later is not None:
                self._ended[command, attempt] = {**later, "attempt": attempt}
        for key, (_, fact) in self._issued.items():
            if key not in self._ended and ended:
                self._end(key, fact, {"silent": True, "message": "no answer came before its run ended"})
        for review, (number, _) in self._reviews.items():
            answers = self._answers.get(review, [{"silent": True}] if ended else [])
            self._add(*({"kind": "person", "review": number, **one} for one in answers))
        order = {key: n for n, key in enumerate(self._issued)}
        self.found.parts[:0] = [self._ended[key] for key in sorted(self._ended, key=lambda key: order.get(key, 0))]
        return self.found

    def note(self, sentence: str) -> None:
        """Say once what is not replayed."""
        self.found.notes[sentence] = None

    def _add(self, *parts: Values) -> None:
        self.found.parts += [{**one, **self._child} for one in parts]

    def _end(self, key: Key, fact: Mapping[str, Any], values: Values, at: int = 0) -> None:
        issued_at = self._issued[key][0]
        after = {"after_s": round((at - issued_at) / US, 6)} if at > issued_at else {}
        attempt = {"attempt": key[1]} if key[1] > 1 else {}
        told = {name: value for name, value in values.items() if value not in (None, "", 0, False)}
        self._ended[key] = {"kind": fact["call"], "call": key[0], **attempt, **after, **told, **self._child}

    def _find(self, event: RecordedEvent) -> tuple[Key, Mapping[str, Any]] | None:
        """Return the call that an event ends; None for one that never went out by ``call_issued``."""
        key = (str(event.fact["command_id"]), int(event.fact["attempt"]))
        return (key, self._issued[key][1]) if key in self._issued else None


def _pass(reader: Reader, event: RecordedEvent) -> None:
    """An event that follows from the others."""


def _begin(reader: Reader, event: RecordedEvent) -> None:
    reader._began = event.at


# -- calls -----------------------------------------------------------------------------------------------------------


def _issue(reader: Reader, event: RecordedEvent) -> None:
    key = (str(event.fact["command_id"]), int(event.fact["attempt"]))
    reader._issued[key] = (event.at, event.fact)


def _model_answers(reader: Reader, event: RecordedEvent) -> None:
    if (found := reader._find(event)) is None:
        return
    if event.erased or not isinstance(event.content, dict):
        reader.found.whole = False
        return
    fact, content = event.fact, event.content
    proposed = content.get("calls") or content.get("unused_calls")
    values = {
        "text": content.get("text", ""),
        "output": _dump(content["output"]) if "output" in content and "text" not in content else "",
        "calls": _dump(proposed) if proposed else "",
        "finish": "" if fact["finish"] == "stop" else fact["finish"],
        "input_tokens": fact["input_tokens"],
        "output_tokens": fact["output_tokens"],
    }
    key, issued = found
    reader._end(key, issued, values, event.at)
    reader._ended[key]["cost_usd_micros"] = fact["cost_usd_micros"]


def _tool_answers(reader: Reader, event: RecordedEvent) -> None:
    if (found := reader._find(event)) is None:
        return
    if event.erased or not isinstance(event.content, dict):
        reader.found.whole = False
        return
    key, issued = found
    if event.fact["error"]:
        error = event.content.get("error") or {}
        values: Values = {"error": str(error.get("message", "")) or "it failed", "code": error.get("code", "")}
        reader._end(key, issued, values, event.at)
        reader._ended[key]["happened"] = False
        return
    if event.fact["hands_to"] or event.fact["ends"]:
        reader.note(f"event {event.seq}, what a result of {event.fact['tool']} did to the conversation is not replayed")
    context = event.content.get("context")
    values = {"result": _dump(event.content.get("result")), "writes": _dump(context) if context else ""}
    reader._end(key, issued, values, event.at)


def _fail(reader: Reader, event: RecordedEvent) -> None:
    if (found := reader._find(event)) is None:
        return
    key, issued = found
    fact = event.fact
    trip = fact["trip"]
    values: Values = {
        "cause": fact["cause"],
        "message": fact["message"],
        "status": fact["status"],
        "retry_after_s": fact["retry_after_s"],
        "breaker_wait_s": fact["breaker_wait_s"],
        "partial": fact["partial"],
        "refused_by": _dump({**trip, "advice": ""}) if trip else "",
        "silent": fact["cause"] == "timeout",
        "billed": bool(fact["billed"] or fact["charged_usd_micros"]),
        "input_tokens": fact["input_tokens"],
        "output_tokens": fact["output_tokens"],
    }
    reader._end(key, issued, values, event.at)
    if fact["billed"] and issued["call"] == "model":
        reader._ended[key]["cost_usd_micros"] = fact["charged_usd_micros"]
    if issued["call"] == "tool":
        reader._ended[key]["happened"] = False


def _interrupt(reader: Reader, event: RecordedEvent) -> None:
    reader._interrupted.append((str(event.fact["command_id"]), int(event.fact["attempt"])))
    reader.note("a worker was gone in the middle of a call: the call is replayed, and the worker's end is not")


def _settle(reader: Reader, event: RecordedEvent) -> None:
    """Learn if a change of the world happened, which the world's service has to know."""
    key = (str(event.fact["command_id"]), int(event.fact["attempt"]))
    if key in reader._ended and event.fact["outcome"] in ("answered", "late"):
        reader._ended[key].pop("happened", None)
    if key in reader._ended and event.fact["outcome"] in ("rejected", "unknown"):
        reader._ended[key]["outcome"] = event.fact["outcome"]


# -- people ----------------------------------------------------------------------------------------------------------


def _open(reader: Reader, event: RecordedEvent) -> None:
    reader._seen["review"] += 1
    reader._reviews[str(event.fact["review_id"])] = (reader._seen["review"], event.at)


def _answer(reader: Reader, event: RecordedEvent, verb: str) -> Values:
    review = str(event.fact["review_id"])
    opened = reader._reviews[review][1]
    before = reader._answers.setdefault(review, [])
    said = event.content.get("message", "") if isinstance(event.content, dict) else ""
    values: Values = {"verb": verb, "after_s": round(max(0, event.at - opened) / US, 6)}
    values |= {"message": said} if said else {}
    values |= {"other": True} if before else {}
    before.append(values)
    return values


def _agree(reader: Reader, event: RecordedEvent) -> None:
    _answer(reader, event, "approve")


def _propose(reader: Reader, event: RecordedEvent) -> None:
    values = _answer(reader, event, "edit")
    if isinstance(event.content, dict) and "payload" in event.content:
        values["edited"] = _dump(event.content["payload"])


def _decide(reader: Reader, event: RecordedEvent) -> None:
    review = str(event.fact["review_id"])
    if review not in reader._reviews:
        return
    if event.fact["system"]:
        reader._answers.setdefault(review, [{"silent": True}])
        return
    _answer(reader, event, str(event.fact["verb"]))
    reader._decided = review


def _last(reader: Reader) -> Values | None:
    """Return the answer that was decided last; None: there was none yet."""
    return reader._answers[reader._decided][-1] if reader._decided else None


def _edit_call(reader: Reader, event: RecordedEvent) -> None:
    last = _last(reader)
    if last is None or last["verb"] != "edit" or not isinstance(event.content, dict):
        return
    last["edited"] = _dump(event.content["calls"][0]["args"])
    if event.fact["proposed_tool"]:
        last["tool"] = event.fact["tool"]


def _edit_output(reader: Reader, event: RecordedEvent) -> None:
    last = _last(reader)
    if last is None or not isinstance(event.content, dict):
        return
    if event.fact["stage"] == "plan" and not event.fact["step_id"]:
        reader.note(f"event {event.seq}, an edit of a brief is not replayed: its review is approved")
        last["verb"] = "approve"
        return
    last["edited"] = _dump(event.content["output"])


def _fill_in(reader: Reader, event: RecordedEvent) -> None:
    last = _last(reader)
    if last is not None and isinstance(event.content, dict):
        last |= {"verb": "edit", "edited": _dump(event.content["answer"])}


def _raise_cap(reader: Reader, event: RecordedEvent) -> None:
    if (last := _last(reader)) is not None:
        last["cap_usd_micros"] = event.fact["cap_usd_micros"]


def _raise_budget(reader: Reader, event: RecordedEvent) -> None:
    if (last := _last(reader)) is not None:
        caps = json.loads(last.get("caps", "[]"))
        caps.append({name: event.fact[name] for name in ("scope", "unit", "cap")})
        last["caps"] = _dump(caps)


def _change_model(reader: Reader, event: RecordedEvent) -> None:
    if event.fact["actor"] and (last := _last(reader)) is not None:
        last["model"] = event.fact["model"]


def _ask_person(reader: Reader, event: RecordedEvent) -> None:
    reader.note(f"event {event.seq}, the question of {event.fact['tool']}'s server to a person is not replayed")


def _act(act: str) -> Callable[[Reader, RecordedEvent], None]:
    def read(reader: Reader, event: RecordedEvent) -> None:
        if reader._child:
            return  # It follows from what was done to the run above.
        text = event.fact.get("reason", "")
        if act == "say":
            text = event.content.get("text", "") if isinstance(event.content, dict) else ""
        at_s = round(max(0, event.at - reader._began) / US, 6)
        placed = {"kind": "act", "act": act, "at_s": at_s, "after_events": reader._marks}
        reader._add(placed | ({"text": text} if text else {}))

    return read


def _write_context(reader: Reader, event: RecordedEvent) -> None:
    if event.fact.get("actor"):
        reader.note(f"event {event.seq}, what a person wrote into the context is not replayed")


def _spawn(reader: Reader, event: RecordedEvent) -> None:
    reader.found.children[str(event.fact["child_id"])] = str(event.fact["command_id"])


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


READ: Mapping[str, Callable[[Reader, RecordedEvent], None]] = {
    "run_started": _begin,
    "call_issued": _issue,
    "model_answered": _model_answers,
    "tool_answered": _tool_answers,
    "attempt_failed": _fail,
    "attempt_interrupted": _interrupt,
    "mutation_settled": _settle,
    "review_opened": _open,
    "review_approved": _agree,
    "review_edited": _propose,
    "review_decided": _decide,
    "call_edited": _edit_call,
    "output_edited": _edit_output,
    "input_requested": _ask_person,
    "input_given": _fill_in,
    "cap_raised": _raise_cap,
    "budget_raised": _raise_budget,
    "model_changed": _change_model,
    "cancel_accepted": _act("cancel"),
    "terminate_accepted": _act("terminate"),
    "run_paused": _act("pause"),
    "run_resumed": _act("resume"),
    "person_said": _act("say"),
    "context_written": _write_context,
    "child_spawned": _spawn,
    "run_ended": _pass,
}
"""Events from which a recording is made. All others follow from these."""
