"""The trial of guardrails: a text at a place, looked at as a run looks at it. What is found is told masked, as everywhere."""

from __future__ import annotations

from typing import Any

from fabric.core.evaluators import Hit
from fabric.core.gates import PLACES, GuardrailGroup
from fabric.guardrails import compiled
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import Problem
from fabric.services.trying import parts, samples
from fabric.services.trying.shapes import Draft, Given, SampleField, Trial, Tried, TriedLine, told

JSON = Any
_GROUPS = "gates.guardrails"
_HINT = "Plain text is looked at as the text of an answer; a JSON object or list as it is."


def _groups(draft: Draft, path: str) -> tuple[GuardrailGroup, ...]:
    """The group at a path, or all of them. PartBroken for what does not compile, with the path that it has in the fabric."""
    if path == _GROUPS:
        groups = parts.part(draft, path, tuple[GuardrailGroup, ...])
        first = 0
    else:
        groups, first = (parts.part(draft, path, GuardrailGroup),), int(path.rpartition(".")[2])
    problems = [Problem(_moved(at, first), sentence) for at, sentence in compiled.problems(groups)]
    if problems:
        raise parts.PartBroken(*problems)
    return groups


def _moved(at: str, first: int) -> str:
    """A path in the groups that were compiled as one in the fabric."""
    place, _, rest = at.removeprefix(f"{_GROUPS}.").partition(".")
    return ".".join(one for one in (_GROUPS, str(int(place) + first), rest) if one)


def _places(draft: Draft, path: str) -> tuple[str, ...]:
    try:
        groups = _groups(draft, path)
    except (parts.PartBroken, Refused):
        return PLACES
    return tuple(place for place in PLACES if any(place in group.places for group in groups)) or PLACES


def _fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    places = _places(draft, path)
    place = "finalize" if "finalize" in places else places[0]
    text = "Write to anna.berg@nordwind.se about the balance."
    return (
        SampleField("place", "choice", "Where", place, places),
        SampleField("text", "text", "What stands there", text, hint=_HINT),
    )


def _tried(draft: Draft, path: str, given: Given) -> Tried:
    scan = compiled.scans(_groups(draft, path)).get(given["place"])
    hits = scan(_value(given["text"])) if scan is not None else []
    passed = TriedLine("passes", f"Nothing is found at {given['place']}.", given["place"])
    return told([_line(hit) for hit in hits], passed=passed)


def _value(text: str) -> JSON:
    """A text as it stands in an answer; what is JSON itself as it is."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return samples.json_of("text", text)
        except Refused:
            pass  # It only begins as JSON does.
    return {"text": text}


def _line(hit: Hit) -> TriedLine:
    shipped = compiled.SHIPPED.get(hit.rule.partition(".")[0])
    finds = shipped.finds if shipped is not None and "." in hit.rule else "a pattern of the fabric's own"
    return TriedLine("fails", hit.found(), hit.path or "text", finds)


GUARDRAILS = Trial("Do the guardrails find something in this?", (_GROUPS, f"{_GROUPS}.N"), _fields, _tried)
