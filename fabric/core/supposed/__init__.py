"""Supposed failures: shows the engine's reactions to a failure in a fabric, before it ever happens
(docs/specification/drills.md).
"""

from fabric.core.supposed.models import Asks, AttemptWait, NotSupposed, Supposed, Supposing, WalkLine, WalkRung
from fabric.core.supposed.walking import suppose_failure

__all__ = ["Asks", "AttemptWait", "NotSupposed", "Supposed", "Supposing", "WalkLine", "WalkRung", "suppose_failure"]
