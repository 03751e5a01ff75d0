"""Publication holds single stages (``policy.stages``) to the rules about limits and weakened protections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fabric.core.flow import Stage
from fabric.core.judges import scored
from fabric.core.spec import FabricSpec
from fabric.core.spec_stages import HERE
from fabric.core.stage_policy import ONLY_IN, StagePolicy
from fabric.services import publication_limits, publication_weak
from fabric.services.fabric_yaml import Problem

Told = Iterable[tuple[str, str]]
"""Paths and sentences."""


def of_limits(spec: FabricSpec, where: object) -> Iterator[Problem]:
    """Windows and deadlines that would not hold in one stage."""

    def told(seen: FabricSpec) -> Told:
        return [(one.path, one.sentence) for rule in publication_limits.OF_STAGES for one in rule(seen, where)]

    for path, sentence in _of_each(spec, told):
        yield Problem(path, sentence)


def notes(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Protections that are off in one stage, or that no run can reach there."""
    yield from _of_each(spec, lambda seen: [one for rule in publication_weak.OF_STAGES for one in rule(seen)])
    for stage, own in spec.policy.stages.items():
        if own.tau is not None and not scored(spec, stage):
            yield f"{HERE}.{stage}.tau", "is never asked: nobody scores what this stage makes"
        elif own.tau == 0:
            yield f"{HERE}.{stage}.tau", "is 0: what this stage makes passes however unsure its judge is"


def _of_each(spec: FabricSpec, told: Callable[[FabricSpec], Told]) -> Iterator[tuple[str, str]]:
    """The problems of a stage that differs, without those of the whole fabric."""
    if not spec.policy.stages:
        return
    whole = set(told(_with(spec, spec.policy.model_copy(update={"stages": {}}))))
    for stage, own in spec.policy.stages.items():
        for path, sentence in told(_with(spec, spec.policy.of_stage(stage))):
            inner = path.removeprefix("policy.")
            if (path, sentence) not in whole and _meant(stage, inner):
                yield _nearest(stage, own, inner), sentence


def _with(spec: FabricSpec, policy: object) -> FabricSpec:
    return spec.model_copy(update={"policy": policy})


def _meant(stage: Stage, path: str) -> bool:
    return not any(
        (path == only or path.startswith(f"{only}.")) and stage not in where for only, (where, _) in ONLY_IN.items()
    )


def _nearest(stage: Stage, own: StagePolicy, path: str) -> str:
    """The stage's own field where it is given, else the stage: the fabric's value does not fit what the stage has otherwise."""
    group, _, name = path.partition(".")
    given = own.groups[group].given if group in own.groups else {}
    if group == "deadlines":
        tier, _, name = name.partition(".")
        given = {n: v for t, one in own.deadlines.items() if t == tier for n, v in one.given.items()}
    return f"{HERE}.{stage}.{path}" if name in given or path == "tau" else f"{HERE}.{stage}"
