"""Trying a check of a draft for somebody: who may, and on what the draft says now."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.services.rights import right_wanted
from fabric.services.trying.apart import TRIAL_S, tried
from fabric.services.trying.shapes import Draft, Sample, Tried


def check_try(*, actor: Actor, draft: Draft, path: str, sample: Sample, within_s: float = TRIAL_S) -> Tried:
    """Makes the check at a path of a draft with a sample. Nothing is kept, nobody is asked. ``draft``: as its YAML reads.

    Refused forbidden for who may not change fabrics; else as ``apart.tried``.
    """
    right_wanted(actor, Right.EDIT, "try the checks of fabrics")
    return tried(draft, path, sample, within_s=within_s)
