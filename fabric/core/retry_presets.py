"""Retry presets of nodes and model calls, and which one is in force (S1 "Retry policies", "Resolution order"; semantics.md 4 "Retry layers").

Attempts count from 1, the first one included: a limit of N attempts allows N. Not in force anywhere yet: the engine has one layer, the
ladder's retry rung.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from fabric.core.frozen import value

CAP_S = 60.0
"""Longest wait, seconds, after jitter (S1: "cap individual delays at 60 seconds")."""
JITTER = (0.5, 1.5)
"""A wait is multiplied by a draw from here (S1: "0.5x-1.5x")."""
GRAPH_RETRIES = 3
"""Retries of a node that says nothing in a graph that says nothing (S1 ``default_max_retry``)."""
_GROWTHS_MAX = 64
"""So many growths pass the cap from any base of a millisecond or more; more would only overflow."""


class PresetName(StrEnum):
    """The presets that a node may name as its ``retry_policy``."""

    NONE = "none"
    STANDARD = "standard"
    AGGRESSIVE = "aggressive"
    LINEAR = "linear"
    PATIENT = "patient"


@value()
class RetryPreset:
    """How often, and how long between."""

    attempts: int
    """Attempts in all, the first one included."""
    base_s: float
    """Seconds before the first retry, before jitter."""
    factor: float
    """Growth a retry."""


PRESETS: Mapping[PresetName, RetryPreset] = MappingProxyType(
    {
        PresetName.NONE: RetryPreset(1, 0.0, 1.0),
        PresetName.STANDARD: RetryPreset(5, 0.2, 2.0),
        PresetName.AGGRESSIVE: RetryPreset(5, 0.5, 2.0),
        PresetName.LINEAR: RetryPreset(3, 0.5, 1.0),
        PresetName.PATIENT: RetryPreset(3, 2.0, 3.0),
    }
)
"""S1's table of retry policies; total over ``PresetName``, by test."""

MODEL_CALLS = RetryPreset(4, 1.0, 2.0)
"""Within one model call: 3 retries from 1 s, x2 (S1 "LLM retries")."""


def counted(retries: int) -> RetryPreset:
    """The preset of a bare ``max_retries``: 5 s, x2; 3 means 4 attempts. ValueError below 0."""
    if retries < 0:
        raise ValueError(f"max_retries is {retries}; give 0 for no retry, or more")
    return RetryPreset(retries + 1, 5.0, 2.0)


def resolve(
    retry_policy: str | None = None, max_retries: int | None = None, graph_retries: int | None = None
) -> RetryPreset:
    """What is in force for a node: its preset, else its ``max_retries``, else the graph's, else 3. ValueError for an unknown preset."""
    if retry_policy is not None:
        if retry_policy not in set(PresetName):
            known = ", ".join(PresetName)
            raise ValueError(f"retry_policy is {retry_policy!r}, which is no preset; there are: {known}")
        return PRESETS[PresetName(retry_policy)]
    if max_retries is not None:
        return counted(max_retries)
    return counted(GRAPH_RETRIES if graph_retries is None else graph_retries)


def delay_s(preset: RetryPreset, attempt: int, draw: float) -> float | None:
    """Seconds between the failure of the ``attempt``-th attempt and the next one; None: it was the last.

    ``draw`` is uniform in [0, 1), as ``draw.unit`` gives it. ValueError for an attempt below 1 or a draw outside.
    """
    if attempt < 1 or not 0.0 <= draw < 1.0:
        raise ValueError(f"attempt {attempt} with draw {draw}: attempts count from 1, and a draw is in [0, 1)")
    if attempt >= preset.attempts:
        return None
    low, high = JITTER
    grown = preset.base_s * preset.factor ** min(attempt - 1, _GROWTHS_MAX)
    return min(CAP_S, grown * (low + draw * (high - low)))
