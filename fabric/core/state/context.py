"""Defines the inputs of ``decide`` besides the run: the time, draws, contents, the fabric and its evaluators.

All of them are arguments; contents come by reference. The evaluators are callables that an adapter compiled from the
fabric. Their digest is part of the context, so that a decision names the rules that it followed. The arguments of a
call are journaled in the answer that proposed it, or by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fabric.core.budgets.grants import Shares
from fabric.core.budgets.key_caps import KeyCaps
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.people.eligibility import Person
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Table, table_with
from fabric.core.spec.retry_layers import Ladders, ladders
from fabric.core.state.evaluators import NO_EVALUATORS, Evaluators, find_lacking
from fabric.core.values.command_ids import unit
from fabric.core.values.cost import Price
from fabric.core.values.spending import UsualRate
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.under import FREE, PolicyRules

Validate = Callable[[JSON], list[str]]
"""Takes a value and returns its problems as sentences with their paths; empty if it fits."""


@dataclass(frozen=True, slots=True)
class CompiledFabric:
    """A published revision with everything derived from it once: shared by all its runs in a process."""

    spec: FabricSpec
    revision: str
    """The spec's digest."""
    ladders: Ladders
    """The decision table, with the retry layers laid in where the fabric has them."""
    prices: Mapping[str, Price]
    """Prices by model name; a missing model has no price, and its calls are refused."""
    validators: Mapping[str, Validate] = field(default_factory=dict)
    """Argument validators by tool name."""
    digest: str = ""
    """Digest of the evaluators."""
    prompt_overhead: Mapping[str, int] = field(default_factory=dict)
    """Bytes that an agent's instructions, tool definitions and templates add to every prompt, by agent name."""
    nested: Mapping[str, CompiledFabric] = field(default_factory=dict)
    """Compiled fabrics of the workers that are supervisors themselves, each with its own topology, by the worker's
    name.
    """
    evaluators: Evaluators = NO_EVALUATORS
    """Compiled checks of the gates and of output schemas."""
    registry: Registry = BUILT_IN
    """Conditions and targets of the installation's own, for transition graphs."""
    key_caps: KeyCaps = field(default_factory=dict)
    """Caps of its models' API keys, by model name."""
    under: PolicyRules = FREE
    """Rules of the workspace's policy on the fabric, besides the limits that it tightens."""

    @property
    def table(self) -> Table:
        """The cells as the fabric has them."""
        return self.ladders.table

    @property
    def table_version(self) -> str:
        """Return the version of the decision table that decisions name."""
        return self.ladders.version

    def select_topology(self, topology: str) -> CompiledFabric:
        """Return the fabric as a run sees it that runs this worker's topology; its own for an empty name. Raises
        KeyError for an unknown one.
        """
        return self.nested[topology] if topology else self


def compile_spec(
    spec: FabricSpec,
    *,
    prices: Mapping[str, Price],
    validators: Mapping[str, Validate] | None = None,
    digest: str = "",
    prompt_overhead: Mapping[str, int] | None = None,
    nested: Mapping[str, CompiledFabric] | None = None,
    evaluators: Evaluators = NO_EVALUATORS,
    registry: Registry = BUILT_IN,
    revision: str = "",
    under: PolicyRules = FREE,
    key_caps: KeyCaps | None = None,
) -> CompiledFabric:
    """Join a spec with its table, prices and evaluators. ``revision``: digest of the published spec, where ``spec``
    is tightened by a workspace's policy. Raises ValueError if its gates, agents or tools need something that was
    not compiled.
    """
    if missing := find_lacking(spec.gates, spec.output_schemas, spec.asking_rules, evaluators):
        raise ValueError(f"{missing} is not compiled: hand its evaluators in")
    return CompiledFabric(
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
        super().__init__(f"content {ref} is not available: its payload was erased, so this run cannot continue")


@dataclass(slots=True)
class Contents:
    """The contents of one run by reference, with their sizes. None is ever changed."""

    values: dict[str, JSON] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each content's JSON."""
    seqs: dict[str, int] = field(default_factory=dict)
    """The event that each content is journaled with; a content whose decision was dropped has none."""

    def put(self, ref: str, value: JSON, size: int) -> None:
        """Add a content under its reference."""
        self.values[ref] = value
        self.sizes[ref] = size

    def read(self, ref: str) -> JSON:
        """Return the content; raises MissingContent."""
        try:
            return self.values[ref]
        except KeyError:
            raise MissingContent(ref) from None

    def keep(self, refs: Collection[str]) -> None:
        """Keep the contents of ``refs`` and drop all others."""
        for name in ("values", "sizes", "seqs"):
            held = getattr(self, name)
            setattr(self, name, {ref: held[ref] for ref in refs if ref in held})

    def size(self, refs: Sequence[str]) -> int:
        """Return the total bytes of these contents."""
        return sum([self.sizes.get(ref, 0) for ref in refs])


@dataclass(slots=True)
class Context:
    """The world as one decision sees it."""

    now: int
    """Microseconds since the epoch."""
    run_id: str
    trace_id: str
    seed: int
    compiled: CompiledFabric
    contents: Contents
    draining: bool = False
    """True: the process is stopping. Inputs are recorded; their consequences are left to the next owner, so that
    nothing is issued.
    """
    announced: frozenset[str] = frozenset()
    """Reviews with an answer that its author may still withdraw; they do not expire meanwhile."""
    family_full: bool = False
    """True: the family, from its root down, has no room for the children that a step needs."""
    shares: Shares = field(default_factory=Shares)
    """State of the budgets that runs share."""
    documents: tuple[tuple[str, str], ...] | None = None
    """Name and text of each attached document; None: not read, since no gate needs them."""
    workspace: str = ""
    """Id of the run's workspace."""
    person: Person | None = None
    """Author of a review's answer, with their roles at this moment; None: unknown."""
    sent_at: int | None = None
    """Instant at which an answer was sent, by the store's clock, in microseconds since the epoch, UTC. None: now."""
    usual: tuple[UsualRate, ...] = ()
    """Usual rates of the fabric, for a run that begins; empty if too few runs have completed."""

    def draw(self, purpose: str, key: str) -> float:
        """Return a number in [0, 1) that depends only on the run's seed, ``purpose`` and ``key``."""
        return unit(self.seed, purpose, key)

    def output(self, ref: str) -> JSON:
        """Return the typed payload that a stage or step left under ``ref``."""
        return self.contents.read(ref)["output"]


def call_args(contents: Contents, ref: str, call_id: str) -> JSON:
    """Return the arguments of the call; None for raw text. Raises MissingContent if there is no content at ``ref``."""
    known = contents.read(ref)
    if "args" in known:
        return known["args"]  # The engine's own call.
    return next(call.get("args") for call in known["calls"] if call["call_id"] == call_id)
