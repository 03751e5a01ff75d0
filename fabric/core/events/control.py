"""Facts about people who take hold of a run: cancel, terminate, pause, resume, fork."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.flow import Stage
from fabric.core.frozen import value


@value(kw_only=True)
class CancelAccepted:
    """Somebody cancelled the run."""

    actor: str
    reason: str = ""
    kind: ClassVar[str] = "cancel_accepted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class TerminateAccepted:
    """Somebody stopped the run at once: nothing is undone."""

    actor: str
    reason: str = ""
    kind: ClassVar[str] = "terminate_accepted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunPaused:
    """Somebody held the run: nothing is issued until it is resumed, and its clocks stand still. What is out comes back and is journaled."""

    actor: str
    reason: str = ""
    run_remaining_us: int = 0
    """What was left of the run's time."""
    stage_remaining_us: int = 0
    kind: ClassVar[str] = "run_paused"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunResumed:
    """A paused run goes on."""

    actor: str
    kind: ClassVar[str] = "run_resumed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class KeptStage:
    """A stage that a fork does not run again, and the reference of its output."""

    stage: Stage
    output_ref: str


@value(kw_only=True)
class KeptBranch:
    """A branch of the fan-out that a fork does not run again."""

    branch: int
    agent: str
    output_ref: str


@value(kw_only=True)
class KeptCall:
    """A tool call of a branch that a fork goes on with, and where its result stands."""

    call_id: str
    tool: str
    args_hash: str
    args_ref: str = ""
    result_ref: str = ""
    state: Literal["done", "refused", "skipped"] = "done"
    error: bool = False
    given: str = ""


@value(kw_only=True)
class KeptTurn:
    """An answer of such a branch, with its calls."""

    answer_ref: str
    calls: tuple[KeptCall, ...] = ()
    notes: tuple[str, ...] = ()
    """Where the corrective messages after it stand."""


@value(kw_only=True)
class KeptWork:
    """An agent's turns in a branch whose call failed. A fork makes that call again and keeps these."""

    branch: int
    agent: str
    turns: tuple[KeptTurn, ...]


@value(kw_only=True)
class KeptPart:
    """What a round of a slice brought that a fork does not run again. Briefs are numbered from 0."""

    branch: int
    output_ref: str
    briefs: tuple[int, ...]
    missing: tuple[int, ...] = ()


@value(kw_only=True)
class RunForked:
    """The run goes on from an event of another one, with what that had come to. Its money and its clocks are its own."""

    origin_run_id: str
    origin_seq: int
    origin_hash: str
    """Chain hash of the origin's event, hex: which journal it was."""
    stages: tuple[KeptStage, ...] = ()
    branches: tuple[KeptBranch, ...] = ()
    parts: tuple[KeptPart, ...] = ()
    """Of branches that are runs of their own; empty: none is."""
    edited: str = ""
    """What was changed by hand: ``request``, or a stage whose output was; empty: nothing."""
    topology: str = ""
    """Of a fork of a team's run: the worker whose topology it runs; empty: the fabric's own."""
    stopped: tuple[str, ...] = ()
    """Sentences about agents that were stopped in the origin, and whose work is kept."""
    work: tuple[KeptWork, ...] = ()
    """Of branches whose call failed: what was said and done in them before."""
    kind: ClassVar[str] = "run_forked"
    version: ClassVar[int] = 1


@value(kw_only=True)
class OutputEdited:
    """A person wrote something in place of what a step or a stage has to pass on, or of a plan whose brief failed. Content: it, as an output."""

    stage: Stage
    escalation_id: str
    actor: str
    step_id: str = ""
    """The step whose output it is; empty: the stage's."""
    kind: ClassVar[str] = "output_edited"
    version: ClassVar[int] = 1


@value(kw_only=True)
class GuidanceGiven:
    """A person answered a failure with words: what failed runs once more with them, which costs its stage one replan. Content: the words."""

    escalation_id: str
    stage: Stage
    step_ids: tuple[str, ...]
    actor: str
    kind: ClassVar[str] = "guidance_given"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ContentKept:
    """Content: one that a fork took over from its origin, as it stood there or as it was edited."""

    what: str
    """Whose it is: a stage, or a branch of the fan-out by its number from 1."""
    kind: ClassVar[str] = "content_kept"
    version: ClassVar[int] = 1


@value(kw_only=True)
class OutputKept:
    """A branch counts as done in a fork: its answer came from the origin."""

    step_id: str
    answer_ref: str
    kind: ClassVar[str] = "output_kept"
    version: ClassVar[int] = 1
