"""Publication: circuit breakers that would be one (semantics.md 9 "Circuit breakers").

Names that do not exist, or twice, are refused where every name is (``core/spec_breakers.py``); a fallback that does not exist with the other fallbacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.breaker.policy import BreakerScope
from fabric.core.spec import FabricSpec
from fabric.core.spec_breakers import names_of
from fabric.services.fabric_yaml import Problem


def overlapping(spec: FabricSpec) -> Iterator[Problem]:
    """Breakers of one policy in front of the same: they have one row, so the second would do nothing. Of those that were published so a call meets the first."""
    breakers = spec.policy.breakers
    for n, breaker in enumerate(breakers):
        for m, earlier in enumerate(breakers[:n]):
            if earlier.kind != breaker.kind:
                continue
            if both := [one for one in names_of(breaker.scope, spec) if breaker.before(one) and earlier.before(one)]:
                path = (
                    f"policy.breakers.{n}.only.{breaker.only.index(both[0])}"
                    if breaker.only
                    else f"policy.breakers.{n}"
                )
                of = "the fabric" if breaker.scope is BreakerScope.FABRIC else f"{breaker.scope} {', '.join(both)}"
                yield Problem(path, f"equals policy.breakers.{m} in front of {of}; take one of the two out")
                break
