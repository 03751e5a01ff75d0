"""The one shape of every mechanism, and what it is asked about.

A mechanism is a module with the names of ``Mechanism``, and with the classes ``Config`` and ``State``. Pages read its
words and settings from it. ``observe`` folds facts; ``check`` judges one proposal and changes nothing. A mechanism
never chooses a reaction and never looks at another mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fabric.core.budgets.grants import Shares
from fabric.core.grounding.sources import Sources
from fabric.core.state.evaluators import NO_EVALUATORS, Evaluators
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, FailureClass, Verdict

if TYPE_CHECKING:
    from fabric.core.breaker.passing import BreakerRefusal
    from fabric.core.budgets.spend_rate import TooFast
    from fabric.core.events.envelope import Event
    from fabric.core.spec.fabric import FabricSpec
    from fabric.core.spec.policies.flow_policy import FlowPolicy
    from fabric.core.state.context import Contents
    from fabric.core.state.run import Run

ProposalKind = Literal[
    "model",
    "tool",
    "retry",
    "spawn",
    "handoff",
    "dispatch",
    "visit",
    "nest",
    "output",
    "failure",
    "crossing",
    "wait",
    "await",
    "exit",
    "send",
]
"""``handoff``: a peer passes a brief on to another. ``dispatch``: a supervisor passes all of its plan's briefs on at
once. ``visit``: a node begins. ``crossing``: a failure is about to cross a restart edge.
"""


class Scope(StrEnum):
    """Owner of one State of a mechanism."""

    RUN = "run"
    BRANCH = "branch"
    """A branch of a stage in one epoch, whatever the round."""
    STEP = "step"


@value(kw_only=True)
class Proposal:
    """One thing the engine is about to do, for the mechanisms to judge."""

    kind: ProposalKind
    stage: Stage
    step_id: str = ""
    agent: str = ""
    target: str = ""
    """Model or tool name."""
    command_id: str = ""
    """Retried call, for a retry."""
    turn: int = 0
    attempt: int = 1
    final: bool = False
    """The one last answer after tools were stripped: turn limits let it pass."""
    call_id: str = ""
    args_hash: str = ""
    args: Any = None
    """Tool call that a model proposes, or that came back with an error; None: it was judged before."""
    args_ref: str = ""
    """The content that the arguments are journaled in, under the call's id."""
    wave: tuple[tuple[str, str], ...] = ()
    """All (tool, args hash) that the model proposed in this turn, this one included."""
    effect: str = "read_only"
    compensated: bool = False
    approval: str = "required"
    """True for an irreversible tool whose calls need a review."""
    in_doubt: bool = False
    """True: the call may have been executed under its key already, with an unknown outcome."""
    polling: bool = False
    cheaper: bool = False
    """Cheaper model that replaces one that cost too much. The earlier spend rate does not count against it."""
    worst_usd_micros: int | None = 0
    """Largest possible cost; None: it has no price."""
    worst_tokens: int = 0
    computed_usd_micros: int | None = 0
    """Largest possible cost of a model call by its price. ``worst_usd_micros`` is higher where the model once billed
    more than was reserved.
    """
    computed_tokens: int = 0
    branches: int = 0
    agents: tuple[str, ...] = ()
    """Spawn: whom; each once."""
    promised: int = 0
    """Spawn: agents that were let start before, and whose runs have not been spawned yet
    (``slices.promised_agents``).
    """
    replaced: int = 0
    """Spawn: agents at work that make room for those who start."""
    depth: int = 1
    by_rule: bool = False
    """Handoff: a rule of the graph says so, and no agent: it is no hop."""
    dry_run: bool = False
    """Visit: nothing of it is for real."""
    retry_after_s: float | None = None
    delay_s: float = 0.0
    keys: tuple[str, ...] = ()
    """Budgets of the key that a model call uses."""
    timeout_s: float = 0.0
    """The tier's own value for one attempt."""
    score: float | None = None
    accepted: bool = False
    """True: a person released the output at any confidence of its judge."""
    payload: Any = None
    """Output: what the stage wants to pass on, as JSON. Dispatch: the plan; handoff: ``{"text": ...}``, the brief."""
    cause: Cause | None = None
    """Failure: what is about to be decided about, and what it says."""
    message: str = ""
    code: str = ""
    """The tool's own name of an error that it returns."""
    too_many: tuple[str, ...] = ()
    """Output of a plan that an agent wrote: what speaks against handing out so many briefs."""
    said: tuple[Any, ...] = ()
    """Output of a fan-out: what its agents said, which the payload only refers to."""
    request: str = ""
    """Output: what the caller asked for."""
    documents: tuple[str, ...] = ()
    """Names of the documents attached to the run."""
    too_fast: TooFast | None = None
    """Send: what the call's fabric or session spends too fast; None: neither does."""
    looked: BreakerRefusal | None = None
    """Send: the circuit breaker that did not let the call pass; None: all of them did."""
    exit_criteria: tuple[str, ...] = ()
    """Output of finalize: what the plan said that must be true of it, where an oracle asks."""
    left_out: tuple[str, ...] = ()
    """Output: what the grounding critic was not shown of the sources."""
    judged: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Output: what the stage's judges found, by branch; one that is missing has not been heard."""
    sources: Sources | None = None
    """Sources that an answer may use, where its gate checks them; None: no check."""


@value()
class View:
    """Data that a check may read besides its own state."""

    now: int
    run: Run
    spec: FabricSpec
    shares: Shares | None = None
    """Shared amounts; None: none. A check without one that it needs raises ``Lacking``."""
    evaluators: Evaluators = NO_EVALUATORS
    contents: Contents | None = None
    """Journaled contents of the run, by reference; None: none is loaded."""
    workspace: str = ""
    """Run of the proposal."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Calls that the workspace's policy forbids, as ``tool:NAME`` or ``model:NAME``, each with the reason."""


class Mechanism(Protocol):
    """The shape. Modules satisfy it; a test holds each of them against it."""

    NAME: str
    TITLE: str
    STOPS: str
    """The object behind the word "stops"."""
    PAGE: str
    """Page of its rule."""
    CLASSES: tuple[FailureClass, ...]
    """MAST classes that it answers."""
    SETTINGS: tuple[str, ...]
    """Places of its numbers in the policy: a whole group (``budget``), or fields of one (``limits.hops``)."""
    UNCOUNTED: str
    """Why a run's page counts nothing for it. Empty: ``selectors/runs/margins/table.py`` measures it."""
    SCOPE: Scope
    APPLIES_TO: frozenset[ProposalKind]
    OBSERVES: frozenset[str]

    def config(self, policy: FlowPolicy) -> Any:
        """Cuts this mechanism's part out of the policy."""
        ...

    def State(self) -> Any:  # noqa: N802 - it is the state's class
        """State before the first observation."""
        ...

    def observe(self, state: Any, event: Event) -> Any:
        """The state after an event of one of the kinds in ``OBSERVES``."""
        ...

    def check(self, config: Any, state: Any, proposal: Proposal, view: View) -> Verdict:
        """Judges one proposal; changes nothing. Raises Lacking for what is shared and not at hand."""
        ...
