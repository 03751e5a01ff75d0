"""Declares the retry layers of a fabric (``policy.retry_layers``), and the retry presets of nodes and model calls. Data
alone.

Attempts count from 1, the first one included: a limit of N attempts allows N. ``core/spec/retry_layers.py`` makes
ladders of the layers, and finds those that do not fit a fabric. Sources: docs/specification/retries.md; S1 "Retry
layers", "When failures become fatal", "Retry policies", "Resolution order".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fabric.core.schema.limits import Unit, declare_limit, declare_setting
from fabric.core.schema.parts import Name
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import ErrorClass

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
    """A retry policy says how many attempts there are and how long the waits between them are."""

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


def preset_of_count(retries: int) -> RetryPreset:
    """The preset of a bare ``max_retries``: 5 s, x2; 3 means 4 attempts. ValueError below 0."""
    if retries < 0:
        raise ValueError(f"max_retries is {retries}; give 0 for no retry, or more")
    return RetryPreset(retries + 1, 5.0, 2.0)


def resolve(
    retry_policy: str | None = None, max_retries: int | None = None, graph_retries: int | None = None
) -> RetryPreset:
    """Return the retry policy of a node: its preset, else its ``max_retries``, else the graph's, else 3. Raise
    ValueError for an unknown preset.
    """
    if retry_policy is not None:
        if retry_policy not in set(PresetName):
            known = ", ".join(PresetName)
            raise ValueError(f"retry_policy is {retry_policy!r}, which is no preset; there are: {known}")
        return PRESETS[PresetName(retry_policy)]
    if max_retries is not None:
        return preset_of_count(max_retries)
    return preset_of_count(GRAPH_RETRIES if graph_retries is None else graph_retries)


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


WayOut = Literal["replan", "handover"]
"""A node that failed leads to the plan, or to the agent above."""
Retries = Annotated[int, Field(ge=0, le=20)]
_PAGE = "docs/specification/retries.md"
_NEXT_LAYER, _COUNT = "the failure goes to the next layer", "S1: default_max_retry"


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Edge(_Said):
    """A transition out of a node that failed (S1 "Edge routing")."""

    failure_class: ErrorClass | None = Field(
        default=None, description="The edge applies to this class of failure. None: to any."
    )
    to: WayOut = Field(
        description="replan: the plan is made anew. handover: the agent above does the work of the node."
    )


class _WaysOut(_Said):
    edges: Annotated[tuple[Edge, ...], Field(max_length=4)] = declare_setting(
        (),
        "Edges out of failed nodes",
        "Each edge says where a failed node leads, by class of failure. Edges of a stage come before the fabric's.",
        source="S1: edge routing",
    )
    retry_target: WayOut | None = declare_setting(
        None,
        "Retry target",
        "Where a failed node leads if no edge applies: replan or handover.",
        source="S1: retry_target",
    )
    fallback_retry_target: WayOut | None = declare_setting(
        None,
        "Second retry target",
        "Where a failed node leads if the retry target cannot apply.",
        source="S1: fallback_retry_target",
    )


class NodeLayers(_WaysOut):
    """One stage differs from the fabric in these; each branch of it is a node."""

    retry_policy: PresetName | None = declare_setting(
        None,
        "Retry policy",
        "A named policy: none, standard, aggressive, linear or patient. It replaces the number of retries.",
        source="S1: retry policies",
    )
    max_retries: Retries | None = declare_limit(
        None,
        "Node retries",
        Unit.TIMES,
        "A node of this stage is retried at most this often: 3 means 4 attempts. The first wait is 5 s and doubles each time. None: the fabric's number.",
        stops=_NEXT_LAYER,
        source=_COUNT,
    )
    allow_partial: bool = declare_setting(
        False,
        "Gaps allowed",
        "True, for fan_out: a branch without retries left becomes a gap, and the stage continues.",
        source="S1: allow_partial",
    )


class WorkerRetries(_Said):
    """Retries of one worker of a graph. Each of its turns counts as a node (S1: attributes of a node)."""

    retry_policy: PresetName | None = declare_setting(
        None,
        "Retry policy",
        "A named policy: none, standard, aggressive, linear or patient. It replaces the number of retries. None: the stage's.",
        source="S1: retry policies",
    )
    max_retries: Retries | None = declare_limit(
        None,
        "Node retries",
        Unit.TIMES,
        "A turn of the worker is retried at most this often: 3 means 4 attempts. None: the stage's number.",
        stops=_NEXT_LAYER,
        source=_COUNT,
    )
    allow_partial: bool = declare_setting(
        False,
        "Gaps allowed",
        "True: a turn of the worker without retries left counts as a partial success.",
        source="S1: allow_partial",
    )


class RetryLayers(_WaysOut):
    """The layers that a failure goes through before it is the run's."""

    preset: Literal["flow", "fabro"] | None = declare_setting(
        None,
        "Retry layers",
        "fabro: retries of the call, another model, retries of the node, edges, retry target, then the decision table. flow or None: the decision table alone.",
        source="S1: retry layers",
    )
    max_retries: Retries | None = declare_limit(
        None,
        "Node retries",
        Unit.TIMES,
        "A node is retried at most this often if its stage has no number of its own. None: 3.",
        stops=_NEXT_LAYER,
        source=_COUNT,
    )
    stages: dict[Stage, NodeLayers] = declare_setting(
        {}, "Retry layers of single stages", "Retry layers of stages that differ from the fabric's.", source=_PAGE
    )
    workers: Annotated[dict[Name, WorkerRetries], Field(max_length=64)] = declare_setting(
        {},
        "Retries of single workers",
        "Workers of a graph whose retries differ from their stage's.",
        source=_PAGE,
    )
    deviation: Annotated[str, Field(max_length=500)] = declare_setting(
        "", "Why nodes are retried in high-stakes", "The reason why nodes are retried in high-stakes.", source=_PAGE
    )

    @property
    def layered(self) -> bool:
        """Return True where the layers are in force."""
        return self.preset == "fabro"

    def node(self, stage: Stage) -> NodeLayers:
        """Return what a stage says for itself; nothing where it says nothing."""
        return self.stages.get(stage, NOTHING_SAID)

    def retries_of(self, stage: Stage, worker: str = "") -> RetryPreset:
        """Return how often a stage's nodes are run again, and the waits between.

        The preset comes first, then the count, then the fabric's count, else 3 retries. ``worker``: the worker whose
        turn it is.
        """
        own, turn = self.node(stage), self.workers.get(worker)
        if turn is not None and (turn.retry_policy is not None or turn.max_retries is not None):
            return resolve(turn.retry_policy, turn.max_retries, self.max_retries)
        return resolve(own.retry_policy, own.max_retries, self.max_retries)

    def most_retries(self, stage: Stage) -> int:
        """Return the most attempts beside the first that any node of a stage has."""
        workers = self.workers if stage is Stage.FAN_OUT else ()
        return max(self.retries_of(stage, name).attempts for name in ("", *workers)) - 1

    def partial_of(self, stage: Stage, worker: str = "") -> bool:
        """Returns True where a node that has exhausted its retries is a partial success."""
        turn = self.workers.get(worker)
        return self.node(stage).allow_partial or (turn is not None and turn.allow_partial)

    def edges_of(self, stage: Stage) -> tuple[Edge, ...]:
        """Return the edges out of a stage's nodes, its own first, each way out for one class of failures once."""
        return tuple(dict.fromkeys((*self.node(stage).edges, *self.edges)))

    def targets_of(self, stage: Stage) -> tuple[WayOut, ...]:
        """The retry targets in S1's order: node, node fallback, graph, graph fallback; each once."""
        own = self.node(stage)
        named = (own.retry_target, own.fallback_retry_target, self.retry_target, self.fallback_retry_target)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def named_ways(self) -> Mapping[str, WayOut]:
        """Every way out that is named, by the field that names it."""
        found: dict[str, WayOut] = {}
        groups: dict[str, _WaysOut] = {"": self, **{f"stages.{stage}.": one for stage, one in self.stages.items()}}
        for path, group in groups.items():
            found |= {f"{path}edges.{n}.to": edge.to for n, edge in enumerate(group.edges)}
            for name in ("retry_target", "fallback_retry_target"):
                if (to := getattr(group, name)) is not None:
                    found[f"{path}{name}"] = to
        return found


NOTHING_SAID = NodeLayers()
