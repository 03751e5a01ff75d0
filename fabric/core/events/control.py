"""Facts about people who take hold of a run: cancel, terminate, pause, resume, fork."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value


@value(kw_only=True)
class CancelAccepted:
    """A person cancelled the run."""

    actor: str
    reason: str = ""
    kind: ClassVar[str] = "cancel_accepted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class TerminateAccepted:
    """A person stopped the run at once: nothing is undone."""

    actor: str
    reason: str = ""
    kind: ClassVar[str] = "terminate_accepted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunPaused:
    """A person paused the run. Until it is resumed, nothing is issued and its clocks stand still. Results of calls
    in flight are journaled.
    """

    actor: str
    reason: str = ""
    run_remaining_us: int = 0
    """Microseconds that were left before the run's deadline."""
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
    """A tool call of a branch that a fork goes on with, and the reference of its result."""

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
    """References of the corrective messages after it."""


@value(kw_only=True)
class KeptWork:
    """An agent's turns in a branch whose call failed. A fork makes that call again and keeps these."""

    branch: int
    agent: str
    turns: tuple[KeptTurn, ...]


@value(kw_only=True)
class KeptPart:
    """The parts of a slice's round that a fork does not run again. Briefs are numbered from 0."""

    branch: int
    output_ref: str
    briefs: tuple[int, ...]
    missing: tuple[int, ...] = ()


@value(kw_only=True)
class RunForked:
    """The run goes on from an event of another one, with the outputs and turns kept there. Its money and its clocks
    are its own.
    """

    origin_run_id: str
    origin_seq: int
    origin_hash: str
    """Chain hash of the origin's event, hex: which journal it was."""
    stages: tuple[KeptStage, ...] = ()
    branches: tuple[KeptBranch, ...] = ()
    parts: tuple[KeptPart, ...] = ()
    """Parts of branches that are child runs; empty without any."""
    edited: str = ""
    """Name of the part that a person changed: ``request``, or the stage whose output was; "": none."""
    topology: str = ""
    """For a fork of a team's run: the worker whose topology it runs; "": the fabric's own topology."""
    stopped: tuple[str, ...] = ()
    """Sentences about agents that were stopped in the origin and whose work the fork keeps."""
    work: tuple[KeptWork, ...] = ()
    """Kept turns of branches whose call failed."""
    kind: ClassVar[str] = "run_forked"
    version: ClassVar[int] = 1


@value(kw_only=True)
class OutputEdited:
    """A person wrote an output in place of a step's or a stage's, or of a plan whose brief failed. Content: that
    output.
    """

    stage: Stage
    review_id: str
    actor: str
    step_id: str = ""
    """The step whose output it is; "": the stage's."""
    kind: ClassVar[str] = "output_edited"
    version: ClassVar[int] = 1


@value(kw_only=True)
class GuidanceGiven:
    """A person answered a failure with words. The failed steps run once more with them, which costs their stage one
    replan. Content: the words.
    """

    review_id: str
    stage: Stage
    step_ids: tuple[str, ...]
    actor: str
    kind: ClassVar[str] = "guidance_given"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ContentKept:
    """A fork took over a content from its origin, as it was there or as it was edited. Content: that content."""

    what: str
    """Owner of the content: a stage, or a branch of the fan-out by its number from 1."""
    kind: ClassVar[str] = "content_kept"
    version: ClassVar[int] = 1


@value(kw_only=True)
class OutputKept:
    """A branch counts as done in a fork: its answer came from the origin."""

    step_id: str
    answer_ref: str
    kind: ClassVar[str] = "output_kept"
    version: ClassVar[int] = 1
