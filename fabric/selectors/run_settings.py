"""How each protection is configured for a run: its part of the policy field by field, beside the defaults and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from fabric.core.loop_names import names_of
from fabric.core.policy import DEADLINES, FlowPolicy
from fabric.core.run import Run
from fabric.core.stage_policy import StagePolicy
from fabric.core.words import words
from fabric.selectors.run_margins import MARGINS


@dataclass(frozen=True, slots=True)
class Setting:
    """One number of a protection's configuration."""

    name: str
    value: Any
    default: Any
    source: str
    """Where its default comes from and what it means."""
    stages: tuple[str, ...] = ()
    """The stages that have a value of their own, each with it."""
    by_tier: bool = False
    """Whether it is left out and the tier's default is in force, which ``value`` is then."""
    held: bool = False
    """True: the workspace's policy set the value."""

    @property
    def own(self) -> bool:
        """Whether this fabric says something else than the default."""
        return bool(self.value != self.default)


def settings_of(name: str, policy: FlowPolicy, run: Run) -> list[Setting]:
    """The configuration of a row of ``MARGINS``, field by field."""
    if name == "deadline":
        part: BaseModel = policy.deadlines_of(run.tier)
        standard: Mapping[str, Any] = DEADLINES[run.tier].model_dump()
    else:
        row = MARGINS[name]
        if row.policy is None:
            return []
        part = row.policy(policy)
        fields = type(part).model_fields
        # What has no default is required: its own value stands, and is the fabric's.
        standard = {key: None if field.is_required() else field.get_default() for key, field in fields.items()}
    chosen = MARGINS[name].fields or tuple(type(part).model_fields)
    about = type(part).model_fields
    fallback = SOURCES.get(name) or (type(part).__doc__ or "").strip().splitlines()[0]
    group = "deadlines" if name == "deadline" else next((g for g in GROUPS if getattr(policy, g) is part), "")
    made = [
        Setting(
            key,
            getattr(part, key),
            standard[key],
            about[key].description or fallback,
            _of_stages(group, key, policy, run),
        )
        for key in chosen
    ]
    return [_of_tier(one, policy, run) if name == "escalation" and one.name == "due_s" else one for one in made]


def settings_under(name: str, policy: FlowPolicy, published: FlowPolicy, run: Run) -> list[Setting]:
    """The same, and which values are not the fabric's. ``published``: its policy without the workspace's."""
    own = {one.name: one.value for one in settings_of(name, published, run)}
    return [replace(one, held=one.value != own[one.name]) for one in settings_of(name, policy, run)]


def _of_stages(group: str, key: str, policy: FlowPolicy, run: Run) -> tuple[str, ...]:
    """``validate 3`` for each stage that has a value of its own. ``group``: the part of the policy."""
    found = []
    for stage, own in policy.stages.items():
        part = own.deadlines.get(run.tier) if group == "deadlines" else own.groups.get(group)
        value = None if part is None else part.given.get(key)
        if value is not None:
            said = names_of(value) if isinstance(value, frozenset) else f"{value:g}"
            found.append(f"{words(stage)} {said}")
    return tuple(found)


GROUPS = tuple(name for name in StagePolicy.model_fields if name in FlowPolicy.model_fields)
"""Groups of the policy that stages may have otherwise."""
SOURCES: Mapping[str, str] = {
    "escalation": "When a question is due. Left out, the tier's default holds: interactive 5 min, batch 24 h, high-stakes 8 h."
}
"""What is said of settings without a description of their own, where the first line of their part is not for readers."""


def _of_tier(due: Setting, policy: FlowPolicy, run: Run) -> Setting:
    """The time to answer as it is in force."""
    if due.value is not None:
        return due
    seconds = policy.due_s(run.tier)
    return replace(due, value=seconds, default=seconds, by_tier=True)
