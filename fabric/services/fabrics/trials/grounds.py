"""Tries a grounding level on an answer: each citation, quotation and number, with the source that it was checked
against.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.grounding import numbers, quotes
from fabric.core.grounding import sources as citations
from fabric.core.grounding.numbers import Values
from fabric.core.grounding.sources import Calculation, Sources
from fabric.core.mechanisms import validation_gate
from fabric.core.mechanisms.validation_gate import POST_CHECKS
from fabric.core.spec.policies.gates import Gates
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON
from fabric.services.fabrics.trials import parts, samples
from fabric.services.fabrics.trials.shapes import (
    CheckTrial,
    Draft,
    Given,
    SampleField,
    TrialResult,
    TriedLine,
    place_sentence,
)

_EVERY = "every source"
LINES_MAX = 200
"""Largest number of citations, quotations and numbers shown of one answer."""


def _gates(draft: Draft) -> Gates:
    """Return the gates for sources. Raises PartBroken for an unknown level."""
    return Gates(
        citations=parts.field_part(draft, "gates.citations", Gates),
        grounding=parts.field_part(draft, "gates.grounding", Gates),
    )


def _fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    found = [
        SampleField("answer", "text", "Answer", samples.ANSWER.replace(" [", ": it “stood at 1,250 euros” [")),
        SampleField("citations", "json", "Documents that it cites", samples.box_text([samples.DOCUMENT])),
        SampleField("documents", "json", "Documents by name", samples.box_text({samples.DOCUMENT: samples.PASSAGE})),
    ]
    try:
        matches = _gates(draft).matches_sources
    except parts.PartBroken:
        matches = False
    if matches:
        hint = 'Result of the calculator: {"expression": "1250 * 12", "value": "15000"}, in the list of calculations.'
        found += [
            SampleField("request", "text", "Request", samples.request(draft)),
            SampleField("results", "json", "Tool answers, one by one", "[]"),
            SampleField("calculations", "json", "Calculations", "[]", hint=hint),
        ]
    return tuple(found)


def _sources(given: Given, matches: bool) -> Sources:
    documents = given["documents"]
    if not isinstance(documents, dict) or not all(isinstance(text, str) for text in documents.values()):
        raise samples.refuse_box("documents", "they are no JSON object of texts by name")
    if not matches:
        return Sources(documents=tuple(documents.items()))
    results = given["results"]
    if not isinstance(results, list):
        raise samples.refuse_box("results", "they are no JSON list")
    return Sources(
        request=given["request"],
        documents=tuple(documents.items()),
        results=tuple(results),
        calculations=tuple(_calculations(given["calculations"])),
    )


def _calculations(given: JSON) -> Iterator[Calculation]:
    if not isinstance(given, list):
        raise samples.refuse_box("calculations", "they are no JSON list")
    for n, one in enumerate(given):
        kinds: dict[str, type | tuple[type, ...]] = {"expression": str, "value": (str, int, float)}
        said = samples.build_object(f"calculations.{n}", one, kinds, '"expression" and "value"')
        yield Calculation(str(said.get("expression", "")), str(said.get("value", "")))


def _try_grounds(draft: Draft, path: str, given: Given) -> TrialResult:
    gates = _gates(draft)
    sources = _sources(given, gates.matches_sources)
    cited = given["citations"]
    if not isinstance(cited, list) or not all(isinstance(one, str) for one in cited):
        raise samples.refuse_box("citations", "they are no list of names")
    names = tuple(name for name, _ in sources.documents)
    payload = {"text": given["answer"], "citations": cited}
    proposal = parts.output(Stage.FAN_IN, payload, documents=names, sources=sources if gates.matches_sources else None)
    check = dict(POST_CHECKS)["grounding"]
    problems = check(validation_gate.Config(), proposal, parts.build_view(parts.sketch(draft, gates))).problems
    lines = [*_lines(gates, given["answer"], cited, sources, names)][: LINES_MAX + 1]
    if len(lines) > LINES_MAX:
        lines[LINES_MAX] = TriedLine("note", f"There are more; the first {LINES_MAX} are shown.")
    sentences = {one.said for one in lines}
    lines += [one for one in map(place_sentence, problems) if one.said not in sentences][:LINES_MAX]
    return TrialResult("fails" if problems else "passes", tuple(lines))


def _lines(
    gates: Gates, answer: str, cited: list[str], sources: Sources, names: tuple[str, ...]
) -> Iterator[TriedLine]:
    """Yield lines level by level, as the gate checks: a level is checked when those before it hold."""
    if gates.citations == "off" and gates.grounding is None:
        yield TriedLine("note", "This fabric asks for no grounding: everything passes.")
        return
    attached = f"attached: {', '.join(names) or 'nothing'}"
    read = sources if gates.matches_sources else None
    wrong = {name: citations.problem(name, names, read) for name in dict.fromkeys(cited)}
    for name, problem in wrong.items():
        said = place_sentence(problem).said if problem else f"{name!r} is attached."
        yield TriedLine("fails" if problem else "passes", said, "citation", attached)
    if not cited:
        yield TriedLine("note", "It cites no document.", "citation", attached)
    unfounded = any(wrong.values()) or (gates.citations == "required" and names and not cited)
    if not gates.matches_sources:
        return
    if unfounded:
        yield TriedLine("note", "Quotations and numbers are looked at once the citations hold.")
        return
    quoted = quotes.check_quotes(answer, sources)
    yield from _list_quotes(quoted)
    if gates.grounding == "quotes":
        return
    if all(one.found for one in quoted):
        yield from _numbers(answer, sources)
    else:
        yield TriedLine("note", "Numbers are looked at once the quotations hold.")


def _list_quotes(quoted: list[quotes.QuoteFinding]) -> Iterator[TriedLine]:
    for one in quoted:
        said = f"“{one.shown}” stands there." if one.found else place_sentence(one.problem()).said
        yield TriedLine("passes" if one.found else "fails", said, "quotation", one.within or _EVERY)
    if not quoted:
        yield TriedLine("note", "It quotes nothing of three words or more.", "quotation")


def _numbers(answer: str, sources: Sources) -> Iterator[TriedLine]:
    held = _list_by_source(sources)
    looked = numbers.check_numbers(answer, sources)
    for one in looked:
        if one.problem:
            against = _EVERY if one.number is not None else "its own result"
            yield TriedLine("fails", place_sentence(one.problem).said, "number" if one.number else "formula", against)
        elif one.number is None:
            yield TriedLine("passes", f"{one.shown} comes out.", "formula", "its own result")
        else:
            where = next((name for name, known in held if numbers.is_founded(one.number, known, Values())), "")
            said = f"{one.shown} stands there." if where else f"{one.shown} was calculated."
            yield TriedLine("passes", said, "number", where or "calculations and formulas")
    if not looked:
        yield TriedLine("note", "It states no number.", "number")


def _list_by_source(sources: Sources) -> list[tuple[str, numbers.KnownNumbers]]:
    """Return the facts of each single source, the documents first."""
    each = [(name, Sources(documents=((name, text),))) for name, text in sources.documents]
    each += [(f"answer of tool {n}", Sources(results=(one,))) for n, one in enumerate(sources.results, 1)]
    each.append(("the request", Sources(request=sources.request)))
    return [(name, numbers.known_in(one)) for name, one in each]


GROUNDING = CheckTrial(
    "Does this answer stand on its sources?", ("gates.grounding", "gates.citations"), _fields, _try_grounds, apart=True
)
