"""Every check of a fabric that can be tried: one table by kind, and what a path of the fabric is tried by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from fabric.core.flow import Stage
from fabric.core.spec import FabricSpec
from fabric.services.errors import Refused
from fabric.services.trying import conditions, grounds, guarding, policies, samples, schemas, verdicts
from fabric.services.trying.parts import PartBroken, found_at
from fabric.services.trying.shapes import Draft, Sample, SampleField, Trial, Tried, TriedLine

TRIALS: Mapping[str, Trial] = {
    "stage": schemas.STAGE,
    "policies": policies.POLICIES,
    "guardrails": guarding.GUARDRAILS,
    "invariants": conditions.INVARIANT,
    "length": schemas.LENGTH,
    "grounding": grounds.GROUNDING,
    "oracle": conditions.ORACLE,
    "verdict": verdicts.VERDICT,
    "confidence": verdicts.CONFIDENCE,
    "arguments": schemas.ARGUMENTS,
    "remembered": schemas.REMEMBERED,
}
"""By kind: every field of ``gates`` has one, by test."""
_ALWAYS = ("policy.tau",)
"""In force with a default where it is not written."""
PATH_CHARS_MAX = 100
_PLACES = {"N": r"\d{1,4}", "STAGE": "[a-z_]+"}


def kind_at(path: str) -> str:
    """The kind of check that stands at a path. Refused not_found where none does."""
    for kind, trial in TRIALS.items():
        if any(_pattern(one).fullmatch(path) for one in trial.paths):
            return kind
    message = f"{path[:PATH_CHARS_MAX]!r} names no check that can be tried; there are: {', '.join(_named())}"
    raise Refused(message, code="not_found", field="path")


def triable(spec: Draft | FabricSpec) -> tuple[str, ...]:
    """The paths of everything that this fabric has to try, in the table's order; a list by its items and, where that can be, as a whole."""
    draft = draft_of(spec)
    return tuple(path for trial in TRIALS.values() for one in trial.paths for path in _standing(draft, one))


def fields_of(spec: Draft | FabricSpec, path: str) -> tuple[SampleField, ...]:
    """The boxes of a sample for what stands at a path, each with an example. Refused not_found for a path that names no check."""
    return TRIALS[kind_at(path)].fields(draft_of(spec), path)


def sample_of(spec: Draft | FabricSpec, path: str) -> dict[str, str]:
    """A sample to begin with. Refused as above."""
    return {field.name: field.example for field in fields_of(spec, path)}


def made(spec: Draft | FabricSpec, path: str, sample: Sample) -> Tried:
    """Makes the check at a path with a sample, here and now, however long it takes.

    Refused for a box that cannot be read (invalid, too_large) and for a path where nothing stands (not_found).
    """
    draft = draft_of(spec)
    trial = TRIALS[kind_at(path)]
    given = samples.read(trial.fields(draft, path), sample)
    try:
        return trial.tried(draft, path, given)
    except PartBroken as broken:
        return Tried("error", tuple(TriedLine("error", one.sentence, one.path) for one in broken.problems))


def draft_of(spec: Draft | FabricSpec) -> Draft:
    """A fabric as its YAML would read."""
    return spec.model_dump(mode="json") if isinstance(spec, FabricSpec) else spec


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(r"\.".join(_PLACES.get(part, re.escape(part)) for part in path.split(".")))


def _named() -> list[str]:
    return [path for trial in TRIALS.values() for path in trial.paths]


def _standing(draft: Draft, path: str) -> Iterator[str]:
    """The places that a pattern has in a fabric."""
    if path.endswith(".STAGE"):
        yield from (path.replace("STAGE", stage) for stage in Stage)
        return
    before, listed, after = path.partition(".N")
    found = found_at(draft, before)
    if not listed:
        yield from [path] if found or path in _ALWAYS else []
        return
    for n in range(len(found)) if isinstance(found, list | tuple) else ():
        if not after or found_at(draft, f"{before}.{n}{after}") is not None:
            yield f"{before}.{n}{after}"
