"""The record of a drill as chaostoolkit writes it: one JSON object that has the experiment and all that came of it.

``completed``: it was run to its end, and the steady state held; ``failed``: the steady state did not hold, before or (``deviated``) after; ``aborted``: it broke, or met one of its own abort
conditions; ``interrupted``: somebody stopped it. Keys that other tools add are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from simulator.scenarios.chaostoolkit import experiment_of
from simulator.scenarios.probes import Checked
from simulator.scenarios.problems import Unreadable, problems_of
from simulator.scenarios.scenario import Scenario

JSON = Any
Status = Literal["completed", "failed", "aborted", "interrupted"]


class _Timed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    start: AwareDatetime
    end: AwareDatetime
    duration: float = Field(ge=0)
    """Seconds."""

    @field_validator("start", "end", mode="before")
    @classmethod
    def _utc(cls, value: JSON) -> JSON:
        """RFC 3339 in UTC; without a zone, as the tool itself writes it, it is UTC."""
        if not isinstance(value, str):
            return value
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is no time; write one like 2026-01-01T00:00:00Z") from None
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)

    @field_serializer("start", "end")
    def _written(self, value: datetime) -> str:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


class Ran(_Timed):
    """What came of one activity: a probe, or an action."""

    activity: dict[str, Any]
    status: Literal["succeeded", "failed", "aborted"]
    output: Any = None
    tolerance_met: bool | None = None
    exception: list[str] | str | None = None


class Steady(BaseModel):
    """What the probes said at one moment, up to the first that was not within its tolerance."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    steady_state_met: bool | None
    probes: list[Ran]


class SteadyStates(BaseModel):
    """Before and after. None: not asked."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    before: Steady | None = None
    after: Steady | None = None


class Journal(_Timed):
    """A drill's record."""

    experiment: dict[str, Any]
    status: Status
    deviated: bool = False
    steady_states: SteadyStates = SteadyStates()
    run: list[Ran] = Field(default_factory=list)
    rollbacks: list[Ran] = Field(default_factory=list)

    def written(self) -> str:
        """As JSON text."""
        return json.dumps(self.model_dump(mode="json", exclude_unset=True), ensure_ascii=False, indent=2) + "\n"


def read_journal(text: str, *, origin: str = "") -> Journal:
    """A record that this or another tool wrote. Raises Unreadable, a sentence for each mistake."""
    where = f"{origin}, " if origin else ""
    try:
        return Journal.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        said = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise Unreadable([f"{where}line {error.lineno}, column {error.colno}: this is no JSON: {said}"]) from None
    except ValidationError as error:
        raise Unreadable(f"{where}{problem}" for problem in problems_of(error, Journal)) from None


def journal_of(
    scenario: Scenario,
    *,
    start: datetime,
    end: datetime,
    before: Sequence[Checked],
    after: Sequence[Checked] | None = None,
    struck: Mapping[str, int] | None = None,
    ended: Literal["aborted", "interrupted"] | None = None,
) -> Journal:
    """The record of a scenario that was run from ``start`` to ``end``.

    ``before``, ``after``: the steady state (``SteadyState.check``); without ``after`` the method was not run to its end. ``struck``: how often each fault struck.
    ``ended``: why it did not come to its end by itself.
    """
    experiment = experiment_of(scenario)
    held_before, held_after = (all(one.met for one in checked) for checked in (before, after or ()))
    deviated = after is not None and not held_after
    status: Status = ended or ("completed" if held_before and not deviated else "failed")
    states = {"before": _steady(experiment, before, start, start)}
    if after is not None:
        states["after"] = _steady(experiment, after, end, end)
    ran = [
        _ran(activity, "succeeded", start, end, {"struck": (struck or {}).get(activity["name"], 0)})
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


def _steady(experiment: Mapping[str, JSON], checked: Sequence[Checked], start: datetime, end: datetime) -> Steady:
    """As far as it was met, and the first probe that was not."""
    probes = []
    activities = experiment["steady-state-hypothesis"]["probes"]
    for activity, one in zip(activities, checked, strict=True):
        why = {} if one.met else {"exception": [one.why_not]}
        probes.append(_ran(activity, "succeeded", start, end, one.output, tolerance_met=one.met, **why))
        if not one.met:
            break
    return Steady(steady_state_met=all(one.met for one in checked), probes=probes)


def _ran(activity: Mapping[str, JSON], status: str, start: datetime, end: datetime, output: JSON, **more: JSON) -> Ran:
    return Ran.model_validate(
        {"activity": dict(activity), "status": status, "output": output, **_times(start, end), **more}
    )


def _times(start: datetime, end: datetime) -> dict[str, Any]:
    return {"start": start, "end": end, "duration": (end - start).total_seconds()}
