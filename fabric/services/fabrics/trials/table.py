"""Table of all checks of a fabric that can be tried, by kind, with the trial of each path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import Stage
from fabric.services.errors import Refused
from fabric.services.fabrics.trials import conditions, grounds, policies, samples, schemas
from fabric.services.fabrics.trials.parts import PartBroken, found_at
from fabric.services.fabrics.trials.shapes import CheckTrial, Draft, Sample, SampleField, TrialResult, TriedLine

TRIALS: Mapping[str, CheckTrial] = {
    "stage": schemas.STAGE,
    "policies": policies.POLICIES,
    "guardrails": policies.GUARDRAILS,
    "invariants": conditions.INVARIANT,
    "length": schemas.LENGTH,
    "grounding": grounds.GROUNDING,
    "oracle": conditions.ORACLE,
    "verdict": conditions.VERDICT,
    "confidence": conditions.CONFIDENCE,
    "arguments": schemas.ARGUMENTS,
    "remembered": schemas.REMEMBERED,
}
"""Trials by kind; a test shows that every field of ``gates`` has one."""
_ALWAYS = ("policy.tau",)
"""Paths in force with a default when they are not written."""
PATH_CHARS_MAX = 100
_PLACES = {"N": r"\d{1,4}", "STAGE": "[a-z_]+"}


def kind_at(path: str) -> str:
    """Return the kind of the check at a path. Raises Refused not_found for a path without a check."""
    for kind, trial in TRIALS.items():
        if any(_pattern(one).fullmatch(path) for one in trial.paths):
            return kind
    message = f"{path[:PATH_CHARS_MAX]!r} names no check that can be tried; there are: {', '.join(_trial_paths())}"
    raise Refused(message, code="not_found", field="path")


def triable(spec: Draft | FabricSpec) -> tuple[str, ...]:
    """Return the paths of all checks of this fabric, in the table's order. A list comes by its items and, where
    possible, as a whole.
    """
    draft = build_draft(spec)
    return tuple(path for trial in TRIALS.values() for one in trial.paths for path in _list_places(draft, one))


def list_fields(spec: Draft | FabricSpec, path: str) -> tuple[SampleField, ...]:
    """Return the boxes of a sample for the check at a path, each with an example. Raises Refused not_found for a
    path without a check.
    """
    return TRIALS[kind_at(path)].fields(build_draft(spec), path)


def build_sample(spec: Draft | FabricSpec, path: str) -> dict[str, str]:
    """Return a sample to begin with. Raises Refused as ``list_fields``."""
    return {field.name: field.example for field in list_fields(spec, path)}


def try_check_here(spec: Draft | FabricSpec, path: str, sample: Sample) -> TrialResult:
    """Make the check at a path with a sample, in this process, however long it takes.

    Raises Refused for a box that cannot be read (invalid, too_large) and for an empty path (not_found).
    """
    draft = build_draft(spec)
    trial = TRIALS[kind_at(path)]
    given = samples.read_sample(trial.fields(draft, path), sample)
    try:
        return trial.tried(draft, path, given)
    except PartBroken as broken:
        return TrialResult("error", tuple(TriedLine("error", one.sentence, one.path) for one in broken.problems))


def build_draft(spec: Draft | FabricSpec) -> Draft:
    """Return a fabric as its YAML would read."""
    return spec.model_dump(mode="json") if isinstance(spec, FabricSpec) else spec


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(r"\.".join(_PLACES.get(part, re.escape(part)) for part in path.split(".")))


def _trial_paths() -> list[str]:
    return [path for trial in TRIALS.values() for path in trial.paths]


def _list_places(draft: Draft, path: str) -> Iterator[str]:
    """Yield the places of a pattern in a fabric."""
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
