"""A failure that is supposed: what the engine would do about it in a fabric, before it ever happens (docs/semantics.md, "Failure drills")."""

from fabric.core.supposed.met import NotSupposed
from fabric.core.supposed.models import Asks, Laid, Line, Supposed, Supposing, Wait
from fabric.core.supposed.walking import supposed

__all__ = ["Asks", "Laid", "Line", "NotSupposed", "Supposed", "Supposing", "Wait", "supposed"]
