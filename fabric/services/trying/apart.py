"""Trying a check on a sample, within its time: where that is the author's to set, in a child process (``fabric/adapters/apart.py``).

A child asks no database, no network and no model.
"""

from __future__ import annotations

from typing import Any

from fabric.adapters import apart
from fabric.core.spec import FabricSpec
from fabric.services.errors import Refused
from fabric.services.trying.shapes import Draft, Sample, Tried, TriedLine
from fabric.services.trying.trials import TRIALS, draft_of, kind_at, made

JSON = Any
TRIAL_S = 5.0
"""Seconds that a trial may take."""
MODULE = "fabric.services.trying.child"


def tried(spec: Draft | FabricSpec, path: str, sample: Sample, *, within_s: float = TRIAL_S) -> Tried:
    """Makes the check at a path of a fabric with a sample, within so many seconds: nothing is kept, nobody is asked.

    ``spec``: the fabric, or its YAML as it reads, whatever is wrong with it elsewhere. Refused for a box that cannot be read (invalid, too_large), a path
    where nothing stands (not_found), and while too many others are being tried (unavailable).
    """
    if not TRIALS[kind_at(path)].apart:
        return made(spec, path, sample)
    return CHILDREN.tried({"draft": draft_of(spec), "path": path, "sample": dict(sample)}, within_s)


class Children(apart.Children):
    """The child processes of trials."""

    def __init__(self, size: int = apart.AT_ONCE, calls_max: int = apart.CALLS_MAX) -> None:
        super().__init__(MODULE, size, calls_max)

    def tried(self, frame: JSON, within_s: float) -> Tried:
        """What a child says of a trial; an error where it had to be ended. Refused as the function of that name."""
        try:
            return _read(self.asked(frame, within_s))
        except apart.NoneFree:
            raise Refused(
                "too many others are being tried; try it again in a few seconds", code="unavailable"
            ) from None
        except apart.Ended as ended:
            return Tried("error", (TriedLine("error", str(ended)),))


CHILDREN = Children()


def _read(said: JSON) -> Tried:
    if "refused" in said:
        raise Refused(**said["refused"])
    return Tried(said["verdict"], tuple(TriedLine(**one) for one in said["lines"]))
