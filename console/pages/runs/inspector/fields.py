"""Show the fields of any fact: one line a field, with label, unit and links. Larger parts are sections.

Anything else follows from a field's type and from the unit at the end of its name, so a new field needs no line here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import convert

from console.pages.runs.inspector.inspected_event import InspectedEvent
from console.pages.runs.inspector.sections import Pair, Section, gate_checks, list_section, pairs
from console.templatetags.figures import span, usd
from fabric.core.events.envelope import fact_class
from fabric.core.spec.policies.budgets import amount_words, cap_words
from fabric.core.spec.policies.loop_limits import detector_name
from fabric.core.values.cost import TokenParts
from fabric.core.values.units import JSON, US
from fabric.core.values.words import words
from fabric.selectors.runs.display.calls import PART_WORDS


class FieldView(NamedTuple):
    """Label, form and note of a field, beyond what its name and type say."""

    label: str = ""
    """Empty: the name in words, without its unit."""
    form: str = ""
    """A key of ``FORMS``; empty: by type and unit."""
    note: str = ""
    """Shown after the value, in grey."""
    tone: str = ""
    means: Mapping[str, str] | None = None
    """Plain words for the values of an enumeration that are worth a line."""


RULED_OUT: Mapping[str, str] = {
    "": "takes the call",
    "tried": "it was asked already",
    "needs": "it cannot do what the call needs",
    "endpoint": "it has the endpoint of the model that failed",
    "price": "its price is not known",
    "breaker": "the circuit breaker of its provider is open",
    "dearer": "it costs no less",
    "guard": "a mechanism refuses it",
}
"""Why a model does not take the call; total over ``Candidate.ruled_out``, by test."""
EXPIRY: Mapping[str, str] = {
    "reject": "then rejected by the system",
    "nothing": "and nothing happens automatically",
    "error": "then it is an error of the call",
    "next": "then the call may not be made again, and the next reaction of the decision table follows",
}
"""Effect of a missing answer."""
FINISHES: Mapping[str, str] = {
    "length": "cut at its token limit: nothing of it is used",
    "content_filter": "withheld by the provider's content filter",
}
VERDICTS: Mapping[str, str] = {"output": "an output", "calls": "proposes calls", "rejected": "cannot be used"}

FIELDS: Mapping[str, FieldView] = {
    "actor": FieldView("by", tone="human"),
    "agents": FieldView("branches"),
    "answer_ref": FieldView("answer"),
    "approvals": FieldView("have to agree", note="different people"),
    "args_hash": FieldView("arguments hash"),
    "args_ref": FieldView("arguments"),
    "barred": FieldView("may only reject"),
    "before": FieldView(form="amount"),
    "billed": FieldView(form="in_charged"),
    "branch": FieldView(form="nth"),
    "breaker_wait_s": FieldView("breaker opens in"),
    "brief": FieldView(form="nth"),
    "briefs": FieldView(form="nths"),
    "call": FieldView("kind of call"),
    "call_id": FieldView("call id"),
    "cap": FieldView("at most", "amount"),
    "cap_usd_micros": FieldView("may spend"),
    "carry_over": FieldView("stays when replanned"),
    "cause": FieldView(tone="warn"),
    "charged_usd_micros": FieldView("charged", "charged"),
    "charged_tokens": FieldView(form="in_charged"),
    "claims": FieldView(note="since it last made progress"),
    "command_id": FieldView("call", "call"),
    "cost_usd_micros": FieldView("cost", "cost"),
    "correction": FieldView("costs a correction"),
    "delay_s": FieldView("waits"),
    "digest": FieldView(form="code", note="a decision names it"),
    "edited": FieldView(form="words"),
    "elapsed_us": FieldView("has taken"),
    "epoch": FieldView("plan", "nth"),
    "review_id": FieldView("review", "review"),
    "final": FieldView("last answer", note="no more tools"),
    "finish": FieldView("ended", tone="warn", means=FINISHES),
    "fence": FieldView(note="writes of an older fence are refused"),
    "hears": FieldView("reads turns", "nths"),
    "incarnation": FieldView(form="code"),
    "index": FieldView(form="nth"),
    "input_kind": FieldView("received input", "words"),
    "item": FieldView("about"),
    "key": FieldView("idempotency key", "code"),
    "left_out": FieldView("reasoning left out", note="earlier answers, whose model alone understands it"),
    "masked_hash": FieldView("masked result", note="equal results have equal hashes"),
    "max_output_tokens": FieldView("tokens for the answer"),
    "mechanism": FieldView(form="words"),
    "missing": FieldView("without a result", "nths"),
    "more_usd_micros": FieldView("at worst it costs", "dearer"),
    "needs": FieldView("needed"),
    "of_key": FieldView("key of the call", "code"),
    "on_expiry": FieldView("without an answer", means=EXPIRY),
    "onward_at": FieldView("escalated"),
    "order": FieldView("keys, the next one first"),
    "probed": FieldView("probe of the breaker", "code"),
    "prompt": FieldView("prompt digest", "code"),
    "proposed_by": FieldView("written by"),
    "proposed_hash": FieldView("proposed were"),
    "reaction": FieldView(form="words"),
    "remind_at": FieldView("reminder"),
    "requested_by": FieldView("asked by"),
    "required_role": FieldView("to"),
    "reserved_usd_micros": FieldView("reserved", note="the worst it may cost"),
    "revision": FieldView(form="code"),
    "roles": FieldView("roles then", note="roles that were judged on"),
    "rung": FieldView(form="nth"),
    "run_usd_micros": FieldView("most that a run may spend"),
    "sanitized": FieldView("cleaned", note="characters that cannot be stored were replaced"),
    "scope": FieldView("counted per", "scope"),
    "seed": FieldView(form="code"),
    "shut": FieldView("breaker open before", note="models that could not stand in"),
    "step_ids": FieldView("runs again", note="it costs its stage one replan"),
    "target": FieldView("asked", "code"),
    "tokens_left": FieldView("retry budget left", "retry_tokens"),
    "usage_problem": FieldView("charge in doubt", tone="warn"),
    "verbs": FieldView("may answer"),
    "verdict": FieldView(means=VERDICTS),
    "what": FieldView("of", "words"),
}
"""The fields whose label, form or note does not follow from their name."""

Shown = Pair | None


def _call(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    if seen.call is None:
        return Pair(label, value, "code")
    seq, call = seen.call
    return (
        Pair(label, seq, "seq", f"{call.target}, {value}") if seq != seen.record.row.seq else Pair(label, value, "code")
    )


def _review(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    found = seen.moment.reviews.get(value) if seen.moment else None
    if found is None or found[0] == seen.record.row.seq:
        return Pair(label, value, "code")
    seq, asked = found
    return Pair(label, seq, "seq", f"{words(asked.item)} in {words(asked.stage)}: {asked.reason}")


def _content(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    found = seen.moment.where.get(value) if seen.moment else None
    return Pair(label, value, "code") if found is None else Pair(label, found, "seq", value)


def _show_instant(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    ahead = value - seen.record.row.at
    return Pair(label, value, "at", f"{span(ahead)} from here" if ahead > 0 else "") if value else None


def _cost_of_call(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    return Pair(label, value, "usd", f"of {usd(seen.call[1].reserved_usd_micros)} reserved" if seen.call else "")


def _show_charge(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    fact = seen.fact
    known = "as the endpoint billed it" if fact.get("billed") else "its reservation: what it was billed is not known"
    return Pair(label, value, "usd", f"{fact['charged_tokens']:,} tokens" + (f", {known}" if value else ""))


def _amount(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    return Pair(label, amount_words(value, seen.fact["unit"]) if "unit" in seen.fact else value)


def _scope(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    return Pair("cap of", cap_words(value)) if "unit" in seen.fact else Pair(label, value, "code")


def _dearer(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    return Pair(label, f"{usd(abs(value))} {'more' if value > 0 else 'less'}" if value else None)


def _retry_tokens(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    own = f"{value / 1_000:.1f} of {seen.revision.spec.policy.retry.bucket}"
    return Pair(label, own, "text", "the run's own; when none is left, nothing is retried")


def _show_list(seen: InspectedEvent, label: str, value: JSON) -> Shown:
    return Pair(label, ", ".join(map(str, value)))


FORMS: Mapping[str, Callable[[InspectedEvent, str, JSON], Shown]] = {
    "text": lambda seen, label, value: Pair(label, value),
    "code": lambda seen, label, value: Pair(label, str(value), "code"),
    "words": lambda seen, label, value: Pair(label, words(str(value))),
    "count": lambda seen, label, value: Pair(label, value, "count"),
    "number": lambda seen, label, value: Pair(label, f"{value:g}"),
    "nth": lambda seen, label, value: Pair(label, value + 1, "count"),
    "nths": lambda seen, label, value: Pair(label, ", ".join(str(one + 1) for one in value)),
    "list": _show_list,
    "yes": lambda seen, label, value: Pair(label, "yes" if value else None),
    "at": _show_instant,
    "usd": lambda seen, label, value: Pair(label, value, "usd"),
    "us": lambda seen, label, value: Pair(label, value, "us"),
    "seconds": lambda seen, label, value: Pair(label, int(value * 1e6), "us"),
    "run": lambda seen, label, value: Pair(label, value, "run"),
    "call": _call,
    "review": _review,
    "content": _content,
    "cost": _cost_of_call,
    "charged": _show_charge,
    "in_charged": lambda seen, label, value: None,
    "amount": _amount,
    "scope": _scope,
    "dearer": _dearer,
    "retry_tokens": _retry_tokens,
}
UNITS: tuple[tuple[str, str, str], ...] = (
    ("_usd_micros", "usd", ""),
    ("_at", "at", ""),
    ("_us", "us", ""),
    ("_s", "seconds", ""),
    ("_run_id", "run", " run"),
    ("child_id", "run", "child run"),
    ("_ref", "content", ""),
    ("_hash", "code", " hash"),
    ("_command", "code", " command"),
    ("_id", "code", ""),
    ("not_before", "at", "not before"),
    ("seconds", "seconds", "expected"),
)
"""End of a name, form, and what stands for that end in the label."""


class _Field(NamedTuple):
    name: str
    label: str
    form: str
    default: JSON


@lru_cache(maxsize=256)
def _list_fields(kind: str) -> tuple[_Field, ...]:
    cls = fact_class(kind)
    hints = get_type_hints(cls)
    return tuple(_build_field(one.name, hints[one.name], one.default) for one in fields(cls))


def _build_field(name: str, hint: JSON, default: JSON) -> _Field:
    view = FIELDS.get(name, FieldView())
    end, form, left = next((unit for unit in UNITS if name.endswith(unit[0])), ("", "", ""))
    label = view.label or words(name.removesuffix(end)) + left
    return _Field(name, label, view.form or form or _find_form(hint), None if default is MISSING else default)


def _find_form(hint: JSON) -> str:
    origin: Any = get_origin(hint)
    if origin in (UnionType, Union):
        hint = next(one for one in get_args(hint) if one is not type(None))
        origin = get_origin(hint)
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, Enum)):
        return "words"
    if origin is tuple:
        return "list"
    return {bool: "yes", int: "count", float: "number"}.get(hint, "text")


def field_pairs(seen: InspectedEvent, without: frozenset[str] = frozenset()) -> Section:
    """Return one line for each field. A field at its default is left out, as in the header; so are those ``without``,
    which another section shows.
    """
    rows = [_pair(seen, one) for one in _list_fields(seen.record.row.kind) if one.name not in without]
    return pairs("Facts", *(row for row in rows if row is not None))


def _pair(seen: InspectedEvent, one: _Field) -> Shown:
    value, view = seen.fact.get(one.name), FIELDS.get(one.name, FieldView())
    if view.means is not None:
        return Pair(one.label, view.means.get(str(value)), tone=view.tone)
    if value in (None, "", [], {}) or value == one.default or _is_large(value):
        return None
    found = FORMS[one.form](seen, one.label, value)
    return found and found._replace(more=found.more or view.note, tone=found.tone or view.tone)


def _is_large(value: JSON) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


# -- fields with sections of their own -------------------------------------------------------------------------------


def field_sections(seen: InspectedEvent) -> list[Section]:
    """Return a section for each field that is more than a line: gates, evidence, tokens, weighed models, problems."""
    return [
        section for name, show in SECTIONS.items() if seen.fact.get(name) for section in show(seen, seen.fact[name])
    ]


def evidence(trip: Mapping[str, JSON], title: str) -> Section:
    """Return the numbers that a mechanism tripped on, each under one label. Raw values stand in the raw event."""
    seen, unit = trip["evidence"], trip["evidence"]["unit"]
    rows = [
        Pair("cause", words(trip["cause"]), tone="warn"),
        _measured("observed", seen["observed"], unit),
        _measured("limit", seen["limit"], unit),
        Pair("scope", seen["scope"], "code"),
        Pair("window", seen["window"]),
    ]
    told = {row.name for row in rows}
    for name, value in seen["details"].items():
        row = _detail(str(name), value, unit)
        # A detail that repeats what the trip says itself is left out; one of that name that differs is told apart.
        if row.name not in told:
            rows.append(row)
        elif all((row.value, row.as_) != (one.value, one.as_) for one in rows):
            rows.append(row._replace(name=f"{row.name} reported"))
    return pairs(title, *rows, Pair("says", trip["message"]), note=words(trip["mechanism"]))


def _measured(label: str, value: JSON, unit: str) -> Pair:
    if value is None:
        return Pair(label, None)
    match unit:
        case "usd_micros":
            return Pair(label, round(value), "usd")
        case "s":
            return Pair(label, round(value * US), "us")
    return Pair(label, f"{_number(value)} {unit}".strip())


MONEY_DETAILS = frozenset({"worst_case", "spent", "granted", "usual"})
"""Details that are money where the evidence is."""
DETAIL_UNITS: tuple[tuple[str, Literal["at", "us"], int], ...] = (
    ("_at", "at", 1),
    ("since", "at", 1),
    ("_us", "us", 1),
    ("_ms", "us", 1_000),
    ("_s", "us", US),
    ("seconds_left", "us", US),
)
"""End of a detail's name, its form, and microseconds a unit."""


def _detail(name: str, value: JSON, unit: str) -> Pair:
    """Return one detail by the unit at the end of its name."""
    if name == "detector":
        return Pair(name, detector_name(value) or _flat(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Pair(words(name), {True: "yes", False: "no"}.get(value) if isinstance(value, bool) else _flat(value))
    if unit == "usd_micros" and name in MONEY_DETAILS:
        return Pair(words(name), round(value), "usd")
    for end, form, factor in DETAIL_UNITS:
        if name.endswith(end):
            label = words(name.removesuffix(end) if end.startswith("_") and form == "us" else name)
            return Pair(label, round(value * factor), form)
    return Pair(words(name), _number(value))


_NAME = re.compile(r"[a-z]+(?:_[a-z]+)+")
"""A name of the program, such as ``breaker_open``."""


def _flat(value: JSON) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{words(str(key))} {_flat(held)}" for key, held in value.items())
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return words(str(value)) if _NAME.fullmatch(str(value)) else str(value)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}".rstrip("0").rstrip(".")


def candidates(weighed: Mapping[str, JSON]) -> list[Section]:
    """Return the models that a call could have gone to, in order, with what each may cost at worst."""
    asked = Pair(weighed["before"], _cost(weighed), "text", "was asked")
    each = [
        Pair(
            one["model"],
            _cost(one),
            "text",
            one["trip"]["message"] if one.get("trip") else RULED_OUT[one["ruled_out"]],
            tone="warn" if one["ruled_out"] else "ok",
        )
        for one in weighed["candidates"]
    ]
    return [pairs("Highest possible cost of the call", asked, *each)]


def _cost(one: Mapping[str, JSON]) -> str:
    return "no price" if one["usd_micros"] is None else usd(one["usd_micros"])


def _token_parts(seen: InspectedEvent, value: JSON) -> list[Section]:
    if isinstance(value, list):  # Of a fork: what it kept of a stage.
        return _lines("Parts kept")(seen, value)
    parts = convert(value, TokenParts)
    price = seen.price
    costs = {} if price is None else price.part_costs(parts)
    rows = (
        Pair(name, count, "count", f"{usd(costs[kind])} of the cost" if kind in costs else "")
        for kind, name in PART_WORDS.items()
        if (count := getattr(parts, kind))
    )
    section = pairs("Tokens among them", *rows)
    return [section] if section.body["rows"] else []


def _rates(seen: InspectedEvent, value: JSON) -> list[Section]:
    rates = [
        f"{cap_words(one['scope'])}: {amount_words(one['usd_micros'], 'usd_micros')} and "
        f"{amount_words(one['tokens'], 'tokens')} in its busiest minute, over {one['runs']} runs"
        for one in value
    ]
    return [list_section("Usual rates when the run began", rates, f"{len(rates):,}")]


def _buckets(seen: InspectedEvent, value: JSON) -> list[Section]:
    rows = (Pair(f"left in {one['bucket']}", f"{one['level'] / 1_000:.1f}") for one in value)
    return [pairs("Retry tokens that all workers share", *rows)]


def _evidence(seen: InspectedEvent, value: JSON) -> list[Section]:
    return [evidence(value, "Evidence")] if isinstance(value, dict) else []


def _lines(title: str) -> Callable[[InspectedEvent, JSON], list[Section]]:
    def show(seen: InspectedEvent, value: JSON) -> list[Section]:
        return [list_section(title, [_flat(one) for one in value])]

    return show


SECTIONS: Mapping[str, Callable[[InspectedEvent, JSON], list[Section]]] = {
    "problems": _lines("Problems"),
    "gate": lambda seen, value: gate_checks(seen.fact),
    "trip": _evidence,
    "cause": _evidence,
    "weighed": lambda seen, value: candidates(value),
    "passed_over": _lines("Models skipped"),
    "parts": _token_parts,
    "rates": _rates,
    "buckets": _buckets,
    "stages": _lines("Stages kept"),
    "branches": _lines("Branches kept"),
    "work": _lines("Work kept"),
    "grants": _lines("Reserved from shared budgets"),
}
"""The fields that are shown as sections, in order."""
