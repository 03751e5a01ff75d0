"""What ``decide`` may look at besides the run: the time, draws, contents by reference, the fabric and its compiled evaluators.

All of it is handed in. The evaluators are callables that an adapter compiled from the fabric; their digest is part of the context, so that a
decision names the rules it was taken under.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.cost import Price
from fabric.core.decision_table import Table, table_with
from fabric.core.draw import unit
from fabric.core.eligibility import Person
from fabric.core.evaluators import NO_EVALUATORS, Evaluators, lacking
from fabric.core.grants import Shares
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.key_caps import KeyCaps
from fabric.core.retry_layers import Ladders, ladders
from fabric.core.spec import FabricSpec
from fabric.core.spending import UsualRate
from fabric.core.workspace_policy.under import FREE, Under

JSON = Any
Validate = Callable[[JSON], list[str]]
"""Takes a value, gives its problems as sentences with their paths; empty when it fits."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A published revision with everything derived from it once: shared by all its runs in a process."""

    spec: FabricSpec
    revision: str
    """The spec's digest."""
    ladders: Ladders
    """The decision table, with the retry layers laid in where the fabric has them."""
    prices: Mapping[str, Price]
    """By model name; a model that is missing has no price, and its calls are refused."""
    validators: Mapping[str, Validate] = field(default_factory=dict)
    """Argument validators by tool name."""
    digest: str = ""
    """Of the evaluators."""
    prompt_overhead: Mapping[str, int] = field(default_factory=dict)
    """Bytes that an agent's instructions, tool definitions and templates add to every prompt, by agent name."""
    nested: Mapping[str, Compiled] = field(default_factory=dict)
    """Workers that are supervisors themselves: the fabric with the topology that each of them runs, by the worker's name."""
    evaluators: Evaluators = NO_EVALUATORS
    """What gates ask, and output schemas."""
    registry: Registry = BUILT_IN
    """Conditions and targets of the installation's own, for transition graphs."""
    key_caps: KeyCaps = field(default_factory=dict)
    """Caps of the keys that its models are asked with, by model name."""
    under: Under = FREE
    """What its workspace's policy says of it, beside what it draws tighter."""

    @property
    def table(self) -> Table:
        """The cells as the fabric has them."""
        return self.ladders.table

    @property
    def table_version(self) -> str:
        """What a decision names as its table."""
        return self.ladders.version

    def within(self, topology: str) -> Compiled:
        """The fabric as a run sees it that runs this worker's topology; its own for an empty name. KeyError for an unknown one."""
        return self.nested[topology] if topology else self


def compile_spec(
    spec: FabricSpec,
    *,
    prices: Mapping[str, Price],
    validators: Mapping[str, Validate] | None = None,
    digest: str = "",
    prompt_overhead: Mapping[str, int] | None = None,
    nested: Mapping[str, Compiled] | None = None,
    evaluators: Evaluators = NO_EVALUATORS,
    registry: Registry = BUILT_IN,
    revision: str = "",
    under: Under = FREE,
    key_caps: KeyCaps | None = None,
) -> Compiled:
    """Joins a spec with its table, prices and evaluators. ``revision``: the digest of what was published, where ``spec`` is that under a workspace's policy.

    ValueError when its gates, agents or tools ask for something that was not compiled.
    """
    if missing := lacking(spec.gates, spec.typed, spec.asking, evaluators):
        raise ValueError(f"{missing} is not compiled: hand its evaluators in")
    return Compiled(
        spec,
        revision or spec.digest(),
        ladders(table_with(spec.decision_table), spec),
        prices,
        validators or {},
        digest,
        prompt_overhead or {},
        nested or {},
        evaluators,
        registry,
        key_caps or {},
        under,
    )


class MissingContent(LookupError):
    """A content that a decision needs was erased or never loaded. The run cannot go on without it."""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        super().__init__(f"content {ref} is not available: its payload was erased, so this run cannot go on")


@dataclass(slots=True)
class Contents:
    """The contents of one run by reference, with their sizes. None is ever changed."""

    values: dict[str, JSON] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each content's JSON."""
    seqs: dict[str, int] = field(default_factory=dict)
    """The event that each content is journaled with; a content whose decision was dropped has none."""

    def put(self, ref: str, value: JSON, size: int) -> None:
        """Adds a content under its reference."""
        self.values[ref] = value
        self.sizes[ref] = size

    def read(self, ref: str) -> JSON:
        """The content, or MissingContent."""
        try:
            return self.values[ref]
        except KeyError:
            raise MissingContent(ref) from None

    def keep(self, refs: Collection[str]) -> None:
        """Lets go of all others."""
        for name in ("values", "sizes", "seqs"):
            held = getattr(self, name)
            setattr(self, name, {ref: held[ref] for ref in refs if ref in held})

    def size(self, refs: tuple[str, ...]) -> int:
        """Bytes of those contents together."""
        return sum(self.sizes.get(ref, 0) for ref in refs)


@dataclass(slots=True)
class Context:
    """One decision's view of the world."""

    now: int
    """Microseconds since the epoch."""
    run_id: str
    trace_id: str
    seed: int
    compiled: Compiled
    contents: Contents
    draining: bool = False
    """True: the process is stopping. What came is recorded; what would follow from it is left to the next owner, so that nothing is issued."""
    announced: frozenset[str] = frozenset()
    """Questions that somebody has answered and may still take the answer back: they do not expire meanwhile."""
    family_full: bool = False
    """True: the family, from its root down, has no room for the children that a step needs."""
    shares: Shares = field(default_factory=Shares)
    """What it may spend of budgets that runs share."""
    documents: tuple[tuple[str, str], ...] | None = None
    """Name and text of each attached document; None: they were not read, for no gate asks."""
    workspace: str = ""
    """The id of the workspace whose run it is."""
    person: Person | None = None
    """Of an answer: who gives it, and what they hold at this moment; None: nobody knows."""
    sent_at: int | None = None
    """The time when an answer was sent, by the store's clock, in microseconds since the epoch, UTC. None: it is sent now."""
    usual: tuple[UsualRate, ...] = ()
    """Of a run that begins: the usual rates of its fabric; empty: too few runs have completed."""

    def draw(self, purpose: str, key: str) -> float:
        """A number in [0, 1), the same wherever it is drawn."""
        return unit(self.seed, purpose, key)

    def output(self, ref: str) -> JSON:
        """The typed payload that a stage or step left under ``ref``."""
        return self.contents.read(ref)["output"]
