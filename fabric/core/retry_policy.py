"""What a fabric says of its retry layers: ``policy.retry_layers`` (semantics.md 4 "Retry layers"; S1 "Retry layers", "When failures become fatal").

Data alone. ``retry_layers.py`` makes ladders of it, ``spec_layers.py`` says what of it does not fit a fabric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fabric.core.flow import Stage
from fabric.core.retry_presets import PresetName, RetryPreset, resolve
from fabric.core.spec_parts import Name
from fabric.core.taxonomy import ErrorClass

WayOut = Literal["replan", "handover"]
"""Where a node that failed may lead: to the plan, or to the agent above."""
Retries = Annotated[int, Field(ge=0, le=20)]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Edge(_Said):
    """A transition out of a node that failed (S1 "Edge routing")."""

    failure_class: ErrorClass | None = Field(
        default=None, description="The class of failure that it is for; None: for any (S1: outcome=fail)."
    )
    to: WayOut = Field(description="replan: the plan once more; handover: the agent above does the node.")


class _WaysOut(_Said):
    edges: Annotated[tuple[Edge, ...], Field(max_length=4)] = Field(
        default=(), description="Where a node that failed leads, by its class; a stage's come before the fabric's."
    )
    retry_target: WayOut | None = Field(
        default=None, description="Where it leads if no edge took it: replan or handover. S1: retry_target."
    )
    fallback_retry_target: WayOut | None = Field(
        default=None, description="Where it leads if the retry target cannot apply. S1: fallback_retry_target."
    )


class NodeLayers(_WaysOut):
    """What differs in one stage: each branch of it is a node."""

    retry_policy: PresetName | None = Field(
        default=None, description="none, standard, aggressive, linear or patient; it beats a count. S1: retry policies."
    )
    max_retries: Retries | None = Field(
        default=None, description="Node retries, 5 s x2 between them; 3 means 4 attempts. None: the fabric's."
    )
    allow_partial: bool = Field(
        default=False,
        description="fan_out: a branch that has exhausted its retries leaves a gap that the stage goes on with.",
    )


class WorkerRetries(_Said):
    """Retries of one worker in a graph, where each turn is a node (S1: attributes of a node)."""

    retry_policy: PresetName | None = Field(default=None, description="As of a stage.")
    max_retries: Retries | None = Field(default=None, description="As of a stage. None: the stage's.")
    allow_partial: bool = Field(
        default=False, description="Turns of its that have exhausted their retries are partial successes."
    )


class RetryLayers(_WaysOut):
    """The layers that a failure goes through before it is the run's."""

    preset: Literal["flow", "fabro"] | None = Field(
        default=None,
        description="fabro: call retries, failover, node retries, edges, retry target, then the cell (S1). "
        "None and flow: the cell's own rungs alone.",
    )
    max_retries: Retries | None = Field(
        default=None, description="Node retries of stages that say nothing; None: 3. S1: default_max_retry."
    )
    stages: dict[Stage, NodeLayers] = Field(default_factory=dict, description="Stages that differ.")
    workers: Annotated[dict[Name, WorkerRetries], Field(max_length=64)] = Field(
        default_factory=dict,
        description="Workers of a graph whose turns are retried otherwise than their stage says.",
    )
    deviation: str = Field(default="", max_length=500, description="Why nodes are retried in high-stakes.")

    @property
    def layered(self) -> bool:
        """Whether the layers are in force."""
        return self.preset == "fabro"

    def node(self, stage: Stage) -> NodeLayers:
        """What a stage says of its own; nothing where it says nothing."""
        return self.stages.get(stage, NOTHING_SAID)

    def retries_of(self, stage: Stage, worker: str = "") -> RetryPreset:
        """How often and how long between a stage's nodes are run again: by preset, by count, by the fabric's count, else 3 retries. ``worker``: whose turn it is."""
        own, turn = self.node(stage), self.workers.get(worker)
        if turn is not None and (turn.retry_policy is not None or turn.max_retries is not None):
            return resolve(turn.retry_policy, turn.max_retries, self.max_retries)
        return resolve(own.retry_policy, own.max_retries, self.max_retries)

    def most_retries(self, stage: Stage) -> int:
        """The most attempts beside the first that a node of a stage has, whoever's it is."""
        workers = self.workers if stage is Stage.FAN_OUT else ()
        return max(self.retries_of(stage, name).attempts for name in ("", *workers)) - 1

    def partial_of(self, stage: Stage, worker: str = "") -> bool:
        """Returns True where a node that has exhausted its retries is a partial success."""
        turn = self.workers.get(worker)
        return self.node(stage).allow_partial or (turn is not None and turn.allow_partial)

    def edges_of(self, stage: Stage) -> tuple[Edge, ...]:
        """The edges out of a stage's nodes, its own first; a way out for the same failures once."""
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
