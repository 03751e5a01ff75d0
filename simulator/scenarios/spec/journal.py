"""The record of a drill as chaostoolkit writes it: one JSON object with the experiment and its results.

- ``completed``: it ran to its end, and the steady state was met.
- ``failed``: the steady state was not met, before or (``deviated``) after.
- ``aborted``: it broke, or met one of its own abort conditions.
- ``interrupted``: a person stopped it.

Keys of other tools are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from fabric.core.values.units import JSON
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.probes import CheckedProbe
from simulator.scenarios.spec.scenario import Scenario
from simulator.texts.problems import Unreadable, list_problems

Status = Literal["completed", "failed", "aborted", "interrupted"]


class _Timed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    start: AwareDatetime
    end: AwareDatetime
    duration: float = Field(ge=0)
    """Return the duration in seconds."""

    @field_validator("start", "end", mode="before")
    @classmethod
    def _utc(cls, value: JSON) -> JSON:
        """Return the instant as RFC 3339 in UTC. An instant without a zone, as the tool writes it, is in UTC."""
        if not isinstance(value, str):
            return value
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is no time; write one like 2026-01-01T00:00:00Z") from None
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)

    @field_serializer("start", "end")
    def _write_instant(self, value: datetime) -> str:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


class RanActivity(_Timed):
    """Result of one activity: a probe, or an action."""

    activity: dict[str, Any]
    status: Literal["succeeded", "failed", "aborted"]
    output: Any = None
    tolerance_met: bool | None = None
    exception: list[str] | str | None = None


class Steady(BaseModel):
    """Results of the probes at one moment, up to the first outside its tolerance."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    steady_state_met: bool | None
    probes: list[RanActivity]


class SteadyStates(BaseModel):
    """Steady states before and after. None: not probed."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    before: Steady | None = None
    after: Steady | None = None


class Journal(_Timed):
    """A drill's record."""

    experiment: dict[str, Any]
    status: Status
    deviated: bool = False
    steady_states: SteadyStates = SteadyStates()
    run: list[RanActivity] = Field(default_factory=list)
    rollbacks: list[RanActivity] = Field(default_factory=list)

    def write_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.model_dump(mode="json", exclude_unset=True), ensure_ascii=False, indent=2) + "\n"


def read_journal(text: str, *, origin: str = "") -> Journal:
    """Parse a record of this or another tool. Raises Unreadable, a sentence for each mistake."""
    where = f"{origin}, " if origin else ""
    try:
        return Journal.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        said = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise Unreadable([f"{where}line {error.lineno}, column {error.colno}: this is no JSON: {said}"]) from None
    except ValidationError as error:
        raise Unreadable(f"{where}{problem}" for problem in list_problems(error, Journal)) from None


def build_journal(
    scenario: Scenario,
    *,
    start: datetime,
    end: datetime,
    before: Sequence[CheckedProbe],
    after: Sequence[CheckedProbe] | None = None,
    struck: Mapping[str, int] | None = None,
    ended: Literal["aborted", "interrupted"] | None = None,
) -> Journal:
    """Return the record of a scenario that ran from ``start`` to ``end``.

    ``before``, ``after``: the steady state (``SteadyState.check``); without ``after`` the method did not run to its
    end. ``struck``: strikes of each fault. ``ended``: reason of an early end.
    """
    experiment = build_experiment(scenario)
    held_before, held_after = (all(one.met for one in checked) for checked in (before, after or ()))
    deviated = after is not None and not held_after
    status: Status = ended or ("completed" if held_before and not deviated else "failed")
    states = {"before": _steady(experiment, before, start, start)}
    if after is not None:
        states["after"] = _steady(experiment, after, end, end)
    ran = [
        _record_activity(activity, "succeeded", start, end, {"struck": (struck or {}).get(activity["name"], 0)})
        for activity in (() if struck is None else experiment["method"])
    ]
    return Journal(
        experiment=experiment,
        status=status,
        deviated=deviated,
        steady_states=SteadyStates(**states),
        run=ran,
        rollbacks=[],
        **_times(start, end),
    )


def _steady(experiment: Mapping[str, JSON], checked: Sequence[CheckedProbe], start: datetime, end: datetime) -> Steady:
    """Return the probes as far as they were met, and the first that was not."""
    probes = []
    activities = experiment["steady-state-hypothesis"]["probes"]
    for activity, one in zip(activities, checked, strict=True):
        why = {} if one.met else {"exception": [one.why_not]}
        probes.append(_record_activity(activity, "succeeded", start, end, one.output, tolerance_met=one.met, **why))
        if not one.met:
            break
    return Steady(steady_state_met=all(one.met for one in checked), probes=probes)


def _record_activity(
    activity: Mapping[str, JSON], status: str, start: datetime, end: datetime, output: JSON, **more: JSON
) -> RanActivity:
    return RanActivity.model_validate(
        {"activity": dict(activity), "status": status, "output": output, **_times(start, end), **more}
    )


def _times(start: datetime, end: datetime) -> dict[str, Any]:
    return {"start": start, "end": end, "duration": (end - start).total_seconds()}
