"""The one shape of every mechanism, and what it is asked about.

A mechanism is a module with ``NAME``, ``SCOPE``, ``APPLIES_TO``, ``OBSERVES``, ``Config`` (cut out of the policy by ``config``), ``State``,
``observe(state, event) -> state`` and ``check(config, state, proposal, view) -> Verdict``. ``observe`` folds facts; ``check`` judges one
proposal and changes nothing. A mechanism never chooses a reaction and never looks at another mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fabric.core.evaluators import NO_EVALUATORS, Evaluators
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.grants import Shares
from fabric.core.grounding.sources import Sources
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Verdict

if TYPE_CHECKING:
    from fabric.core.breaker.passing import Looked
    from fabric.core.context import Contents
    from fabric.core.envelope import Event
    from fabric.core.pace import TooFast
    from fabric.core.policy import FlowPolicy
    from fabric.core.run import Run
    from fabric.core.spec import FabricSpec

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
"""``handoff``: a peer passes a brief on to another; ``dispatch``: a supervisor passes all of its plan's briefs on at once; ``visit``: a node begins;
``crossing``: a failure is about to cross a restart edge."""


class Scope(StrEnum):
    """What one State of a mechanism belongs to."""

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
    """Of a retry: the call that is tried again."""
    turn: int = 0
    attempt: int = 1
    final: bool = False
    """The one last answer after tools were stripped: turn limits let it pass."""
    call_id: str = ""
    args_hash: str = ""
    args: Any = None
    """Of a tool call that a model proposes anew, and of one that came back with an error; None: they were judged before."""
    args_ref: str = ""
    """The content that the arguments are journaled in, under the call's id."""
    wave: tuple[tuple[str, str], ...] = ()
    """All (tool, args hash) that the model proposed in this turn, this one included."""
    effect: str = "read_only"
    compensated: bool = False
    approval: str = "required"
    """Of an irreversible tool: whether a person is asked before each call."""
    in_doubt: bool = False
    """True: it may have been executed under its key already, and nobody knows."""
    polling: bool = False
    cheaper: bool = False
    """Of a model call: a cheaper model in place of one that cost too much. The rate that led to it is not held against it."""
    worst_usd_micros: int | None = 0
    """What it may cost at worst; None: it has no price."""
    worst_tokens: int = 0
    computed_usd_micros: int | None = 0
    """Of a model call: what its price makes of its worst case. ``worst_usd_micros`` is more where the model has billed more than was reserved."""
    computed_tokens: int = 0
    branches: int = 0
    agents: tuple[str, ...] = ()
    """Spawn: whom; each once."""
    promised: int = 0
    """Spawn: agents that were let start before, and whose runs have not been spawned yet (``slices.promised``)."""
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
    """Of a model call: the budgets of the key that it goes out with."""
    timeout_s: float = 0.0
    """The tier's own value for one attempt."""
    score: float | None = None
    accepted: bool = False
    """Of an output: a person let it pass however sure its judge is."""
    payload: Any = None
    """Output: what the stage wants to pass on, as JSON. Dispatch: the plan; handoff: ``{"text": ...}``, the brief."""
    cause: Cause | None = None
    """Failure: what is about to be decided about, and what it says."""
    message: str = ""
    code: str = ""
    """Of an error that a tool gives its model: the tool's own name for it."""
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
    looked: Looked | None = None
    """Send: the circuit breaker that did not let the call pass; None: all of them did."""
    exit_criteria: tuple[str, ...] = ()
    """Output of finalize: what the plan said that must be true of it, where an oracle asks."""
    left_out: tuple[str, ...] = ()
    """Output: what the grounding critic was not shown of the sources."""
    judged: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Output: what the stage's judges found, by branch; one that is missing has not been heard."""
    sources: Sources | None = None
    """What an answer may rest on, where its gate asks; None: nobody asks."""


@value()
class View:
    """What a check may look at besides its own state."""

    now: int
    run: Run
    spec: FabricSpec
    shares: Shares | None = None
    """What runs share; None: nothing. A check that lacks something of it raises ``Lacking``."""
    evaluators: Evaluators = NO_EVALUATORS
    contents: Contents | None = None
    """What the run has journaled, by reference; None: nothing is at hand."""
    workspace: str = ""
    """Whose run it is."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """What the workspace's policy lets nobody call, as ``tool:NAME`` or ``model:NAME``, and why."""


class Mechanism(Protocol):
    """The shape. Modules satisfy it; a test holds each of them against it."""

    NAME: str
    SCOPE: Scope
    APPLIES_TO: frozenset[ProposalKind]
    OBSERVES: frozenset[str]

    def config(self, policy: FlowPolicy) -> Any:
        """Cuts this mechanism's part out of the policy."""
        ...

    def State(self) -> Any:  # noqa: N802 - it is the state's class
        """What is remembered before anything was observed."""
        ...

    def observe(self, state: Any, event: Event) -> Any:
        """The state after an event of one of the kinds in ``OBSERVES``."""
        ...

    def check(self, config: Any, state: Any, proposal: Proposal, view: View) -> Verdict:
        """Judges one proposal; changes nothing. Raises Lacking for what is shared and not at hand."""
        ...
