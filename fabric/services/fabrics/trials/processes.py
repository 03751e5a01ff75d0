"""Tries a check of a draft on a sample for an actor, within its time.

The right is verified, and the draft's present text is used. A check whose duration its author controls runs in a child
process (``fabric/policies/expressions/processes.py``). A child uses no database, no network and no model.
"""

from __future__ import annotations

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from fabric.policies.expressions import processes as apart
from fabric.services.errors import Refused
from fabric.services.fabrics.trials.shapes import Draft, Sample, TrialResult, TriedLine
from fabric.services.fabrics.trials.table import TRIALS, build_draft, kind_at, try_check_here
from fabric.services.rights import right_wanted

TRIAL_S = 5.0
"""Seconds that a trial may take."""
MODULE = "fabric.services.fabrics.trials.child"


def try_check(spec: Draft | FabricSpec, path: str, sample: Sample, *, within_s: float = TRIAL_S) -> TrialResult:
    """Try the check at a path of a fabric with a sample, within ``within_s`` seconds. Stores nothing and calls
    nothing.

    ``spec``: the fabric, or its YAML as it reads, with any errors elsewhere. Raises Refused for a box that cannot be
    read (invalid, too_large), an empty path (not_found), and while too many other checks are being tried
    (unavailable).
    """
    if not TRIALS[kind_at(path)].apart:
        return try_check_here(spec, path, sample)
    return CHILDREN.try_frame({"draft": build_draft(spec), "path": path, "sample": dict(sample)}, within_s)


class TrialChildren(apart.ModuleChildren):
    """The child processes of trials."""

    def __init__(self, size: int = apart.AT_ONCE, calls_max: int = apart.CALLS_MAX) -> None:
        super().__init__(MODULE, size, calls_max)

    def try_frame(self, frame: JSON, within_s: float) -> TrialResult:
        """Return a child's result of a trial; an error where the child had to be ended. Raises Refused as the
        module's ``try_check``.
        """
        try:
            return _read(self.ask(frame, within_s))
        except apart.NoneFree:
            raise Refused(
                "too many others are being tried; try it again in a few seconds", code="unavailable"
            ) from None
        except apart.ChildProcessEnded as ended:
            return TrialResult("error", (TriedLine("error", str(ended)),))


CHILDREN = TrialChildren()


def _read(said: JSON) -> TrialResult:
    if "refused" in said:
        raise Refused(**said["refused"])
    return TrialResult(said["verdict"], tuple(TriedLine(**one) for one in said["lines"]))


def check_try(*, actor: Actor, draft: Draft, path: str, sample: Sample, within_s: float = TRIAL_S) -> TrialResult:
    """Try the check at a path of a draft with a sample. Stores nothing and calls nothing. ``draft``: as its YAML
    reads.

    Raises Refused forbidden for an actor who may not change fabrics; else as ``processes.try_check``.
    """
    right_wanted(actor, Right.EDIT, "try the checks of fabrics")
    return try_check(draft, path, sample, within_s=within_s)
