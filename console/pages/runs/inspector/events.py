"""Shows one event: its content, views of its kind, its fields, and a note on its kind.

A section that needs the earlier state of the run (a prompt, the money left, the call that an answer belongs to) gets it
from a fold up to the event, made once and on request. A call shows the prompt message by message, the tools that were
offered, or the arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from console.pages.runs.inspector import decision
from console.pages.runs.inspector.fields import field_pairs, field_sections
from console.pages.runs.inspector.inspected_event import InspectedEvent
from console.pages.runs.inspector.sections import (
    Pair,
    Section,
    content,
    content_part,
    erased_section,
    list_section,
    pairs,
    sentence,
    text,
    unread_section,
)
from console.templatetags.figures import span, usd
from fabric.core.people.actor import Actor
from fabric.core.values.flow import ANSWERED
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from fabric.runtime.ports.calls import ChatMessage, ModelRequest
from fabric.selectors.errors import Refused
from fabric.selectors.runs.display import EVENT_DISPLAY, choose_label
from fabric.selectors.runs.events.moments import (
    Erased,
    EventRecord,
    Moment,
    Unread,
    build_contents,
    event_get,
    find_attempt_end,
    prompt_at,
)
from fabric.selectors.runs.lookup import RunView
from fabric.tools.runner import offers

MESSAGE_MAX = 20_000
"""Characters of one message of a prompt that are shown."""
PROMPT_MAX = 100_000
"""Characters of one prompt that are shown."""
TOO_FAR = "It lies too far into this run to be worked out again here; the facts below are complete."


@dataclass(frozen=True, slots=True)
class Shown:
    """One message of a prompt, cut where it is very long."""

    role: str
    text: str
    left_out: int
    tool: str
    calls: tuple[tuple[str, str], ...]
    open: bool


def issued_call(seen: InspectedEvent) -> list[Section]:
    """Return what was sent, a prompt or arguments, and what ended the attempt. A model's end has answer and use."""
    row, model = seen.record.row, seen.fact["call"] == "model"
    sent = _prompt(seen) if model else _arguments(seen)
    found = find_attempt_end(seen.run.id, row.seq, seen.fact["command_id"], seen.fact["attempt"])
    if found is None:
        return sent if seen.run.terminal else [*sent, pairs("Result of the call", Pair("result", "still out"))]
    seq, kind, at = found
    result = Pair("result", seq, "seq", f"{choose_label(kind).lower()} after {span(at - row.at)}")
    if not model or kind != "model_answered":
        return [*sent, pairs("Result of the call", result)]
    answer = event_get(seen.actor, seen.run.id, seq)
    return [*sent, *_of_answer(answer), _used(answer.row.fact, seen.fact, at - row.at, result)]


def _of_answer(answer: EventRecord) -> list[Section]:
    """Return the content of an answer as sections of the call's panel. Its trees are read from its own event."""
    return [
        replace(one, body=one.body | {"seq": answer.row.seq}) if one.part == "tree" else one
        for one in _contents(answer)
    ]


USED = frozenset({"input_tokens", "output_tokens", "cost_usd_micros"})
"""Fields of an answer that its use shows."""


def _used(answer: Mapping[str, JSON], issued: Mapping[str, JSON], took: int, *more: Pair) -> Section:
    """Return what a model call took: time, tokens, money."""
    return pairs(
        "Used",
        *more,
        Pair("time", took, "us"),
        Pair("tokens", f"{answer['input_tokens']:,} in, {answer['output_tokens']:,} out"),
        Pair("cost", answer["cost_usd_micros"], "usd", f"of {usd(issued['reserved_usd_micros'])} reserved"),
    )


def answered_prompt(seen: InspectedEvent) -> list[Section]:
    """Return what a model was asked, folded, and what its answer used."""
    if seen.call is None:
        return []
    seq, issued = seen.call
    asked = InspectedEvent(seen.actor, seen.run, event_get(seen.actor, seen.run.id, seq))
    call = Pair("call", seq, "seq", f"{issued.target}, attempt {issued.attempt}")
    use = _used(seen.fact, asked.fact, seen.record.row.at - asked.record.row.at, call)
    return [use, *(replace(one, body=one.body | {"folded": True}) for one in _prompt(asked) if one.part == "prompt")]


def _prompt(seen: InspectedEvent) -> list[Section]:
    if seen.moment is None:
        return [sentence("Prompt", TOO_FAR)]
    _, fact = seen.moment.issued[seen.fact["command_id"]]
    try:
        spec = seen.fabric.spec
        asked = prompt_at(seen.actor, seen.run.id, seen.moment, fact, spec, {t.name: offers(t) for t in spec.all_tools})
    except Erased:
        return [erased_section("Prompt")]
    except Unread:
        return [unread_section("Prompt")]
    except (KeyError, LookupError, TypeError, ValueError, Refused):
        return [sentence("Prompt", "This version does not know the templates that it was made with.")]
    return [_messages(asked), *_own_parts(asked), *_list_offered_tools(asked)]


def _own_parts(asked: ModelRequest) -> list[Section]:
    """Return which reasoning of earlier answers goes back to its model, and which is left out for another one."""
    carried = [one for one in asked.messages if one.own is not None or any(call.own is not None for call in one.calls)]
    foreign = sorted({one.model for one in carried if one.model != asked.model.name})
    back = sum(one.model == asked.model.name for one in carried)
    lines = [f"Reasoning of {back} earlier answers goes back to {asked.model.name}."] if back else []
    lines += [f"Reasoning of {model} is left out: only that model understands it." for model in foreign]
    return [list_section("Reasoning sent back", lines)] if lines else []


def _messages(asked: ModelRequest) -> Section:
    left, shown = PROMPT_MAX, []
    last = len(asked.messages) - 1
    for n, message in enumerate(asked.messages):
        body = message.text[: max(0, min(MESSAGE_MAX, left))]
        left -= len(body)
        shown.append(
            Shown(message.role, body, len(message.text) - len(body), message.tool, _calls(message), n in (last, 1))
        )
    note = f"{len(shown)} message{'s' if len(shown) != 1 else ''}, rendered again from their references"
    return Section("prompt", "Prompt", note, {"messages": shown})


def _calls(message: ChatMessage) -> tuple[tuple[str, str], ...]:
    return tuple((call.tool, (call.raw_args or str(call.args))[:1_000]) for call in message.calls)


def _list_offered_tools(asked: ModelRequest) -> list[Section]:
    wanted = words(asked.output) if asked.output_schema is not None else "text"
    tools = [f"{tool.name}: {' '.join(tool.description.split())[:300]}" for tool in asked.tools]
    if not tools:
        return [sentence("Tools offered", f"None: only an answer was wanted ({wanted}).")]
    return [list_section("Tools offered", tools, f"wanted: {wanted}")]


def _arguments(seen: InspectedEvent) -> list[Section]:
    fact = seen.fact
    if seen.moment is None:
        return [sentence("Arguments", TOO_FAR)]
    return arguments(seen, seen.moment, fact["args_ref"], fact["call_id"])


def arguments(seen: InspectedEvent, moment: Moment, ref: str, call_id: str) -> list[Section]:
    """Return the arguments of a proposed call, as they stand in the answer that proposed it."""
    if not moment.reads:
        return [unread_section("Arguments")]
    answer = build_contents(seen.run.id, moment, [ref]).values.get(ref)
    if answer is None:
        return [erased_section("Arguments")]
    calls = answer.get("calls", ()) if isinstance(answer, dict) else ()
    found = next(((n, call) for n, call in enumerate(calls) if call.get("call_id") == call_id), None)
    if found is None:
        return []
    number, call = found
    if call.get("args") is None:
        return [text("Arguments", str(call.get("raw_args", "")), "no JSON object")]
    body = {"value": call["args"], "path": f"/calls/{number}/args", "seq": moment.where[ref]}
    return [Section("tree", "Arguments", f"proposed in event {moment.where[ref]}", body)]


def answered_arguments(seen: InspectedEvent) -> list[Section]:
    """Return the arguments of the call that a tool answered."""
    call = seen.call
    return arguments(seen, seen.moment, call[1].args_ref, seen.fact["call_id"]) if call and seen.moment else []


log = logging.getLogger(__name__)


def inspect_event(actor: Actor, run: RunView, record: EventRecord) -> list[Section]:
    """Return the sections of one event. A kind of a newer version has its content alone."""
    if not record.row.known or record.row.kind not in EVENT_DISPLAY:
        return content(record, "Recorded with it")
    try:
        return _sections(InspectedEvent(actor, run, record))
    except Exception:
        # One event that cannot be explained must not take the page away: its header and its content are shown as they
        # are.
        log.exception("event %s of run %s cannot be explained", record.row.seq, run.id)
        return [
            sentence("Not explained", "The facts of this event do not fit together."),
            *content(record, "Recorded with it"),
        ]


def _sections(seen: InspectedEvent) -> list[Section]:
    kind = seen.record.row.kind
    views = VIEWS[kind](seen) if kind in VIEWS else []
    without = USED if kind == "model_answered" and seen.call is not None else frozenset()
    facts = [] if kind in WITHOUT_FIELDS else [*field_sections(seen), field_pairs(seen, without)]
    note = EVENT_DISPLAY[kind].note
    return [*_contents(seen.record), *views, *facts, *([sentence("Consequence", note)] if note else [])]


def _contents(record: EventRecord) -> list[Section]:
    """Return the event's content: as a whole, or the members that its row names."""
    heading = EVENT_DISPLAY[record.row.kind].content
    if not isinstance(heading, str):
        return [section for key, title in heading.items() for section in content_part(record, key, title)]
    if record.row.kind != "review_opened":
        return content(record, heading)
    # A review's words stand on its own page; the tree with its internal names is opened by readers who want it.
    return [
        replace(one, note="as stored", body=one.body | {"folded": True}) if one.part == "tree" else one
        for one in content(record, heading)
    ]


def _end(seen: InspectedEvent) -> list[Section]:
    """Return what the run came to, and what is missing of its outcome."""
    fact = seen.fact
    whole = fact["state"] in ANSWERED
    missing = "branches whose retries were exhausted" if whole else "everything after it was stopped"
    cost = Pair("cost", seen.moment.spent_usd_micros if seen.moment else None, "usd")
    return [pairs("The run came to", cost, Pair("missing", missing if fact["partial"] else None))]


VIEWS: Mapping[str, Callable[[InspectedEvent], list[Section]]] = {
    "run_ended": _end,
    "call_issued": issued_call,
    "model_answered": answered_prompt,
    "tool_answered": answered_arguments,
    "reaction_decided": decision.decision_sections,
}
"""Views that need more than the event's own fields. A kind without one is shown by its row and its fields."""
WITHOUT_FIELDS = frozenset({"reaction_decided"})
"""Kinds whose views show each of their fields already."""
