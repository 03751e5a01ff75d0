"""Changes of circuit breakers by people, and the retention of breakers' history."""

from __future__ import annotations

import time

from django.db import transaction
from django.db.models import F

from fabric.core.audit.lines import Act
from fabric.core.breaker.table import BreakerHappening, BreakerState, Standing, apply_happening, encode_standing
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.models import Guard, GuardChange, GuardCount
from fabric.program.name import program
from fabric.runtime.spending.rules import UNTIL_RING
from fabric.selectors.database_time import store_now
from fabric.selectors.models.breakers import BreakerView, breaker_find
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX

KEPT_US = 7 * 86_400 * 1_000_000
"""Time for which a breaker's change stays visible, in microseconds."""


def breaker_force_open(*, actor: Actor, scope: str, kind: str, generation: int, reason: str) -> BreakerView:
    """Open a breaker until a person resets it: no call passes, in all processes within a second. ``generation``: the
    one that the actor saw.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (it is open, or changed meanwhile).
    """
    asked = (actor, scope, kind, generation, reason)
    return _move_breaker(*asked, BreakerHappening.FORCED_OPEN, Act.BREAKER_OPENED, "it lets no call through as it is")


def breaker_reset(*, actor: Actor, scope: str, kind: str, generation: int, reason: str) -> BreakerView:
    """Close a breaker and forget its trips and its endpoint's wait: calls pass, and its signals are counted anew.
    ``generation``: the one seen.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (it is closed, or changed meanwhile).
    """
    asked = (actor, scope, kind, generation, reason)
    return _move_breaker(*asked, BreakerHappening.RESET, Act.BREAKER_RESET, "there is nothing to reset")


def may_move(actor: Actor) -> bool:
    """Return True if the actor may open and reset breakers. This stops or frees the calls of every run behind them."""
    return actor.may(Right.OPERATE)


def _move_breaker(
    actor: Actor, scope: str, kind: str, generation: int, reason: str, how: BreakerHappening, act: Act, nothing: str
) -> BreakerView:
    right_wanted(actor, Right.OPERATE, "move circuit breakers")
    seen = breaker_find(actor, scope, kind)
    if seen is None:
        raise Refused(
            f"there is no circuit breaker {scope[:80]!r} {kind[:80]!r} in this workspace; `{program()} breaker list` lists them",
            code="not_found",
            field="scope",
        )
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        message = (
            "moving a breaker by hand needs a reason: say why, it is kept with the breaker and in the audit stream"
        )
        raise Refused(message, code="invalid", field="reason")
    if seen.generation != generation:
        raise _meanwhile(seen)
    stands = apply_happening(seen.breaker, seen.standing, how, by=actor.name, reason=why)
    if stands is seen.standing:
        message = f"the circuit breaker of {seen.words} is {SAID[seen.standing.state]} already: {nothing}"
        raise Refused(message, code="conflict", field="scope")
    with transaction.atomic():
        if not _change(scope, kind, generation, stands):
            raise _meanwhile(breaker_find(actor, scope, kind) or seen)
        if how is BreakerHappening.RESET:
            GuardCount.objects.filter(scope=scope, kind=kind, ring=UNTIL_RING).delete()
        change = {
            "breaker": kind,
            "generation": generation + 1,
            "was": seen.standing.state.value,
            "is": stands.state.value,
            "reason": why,
        }
        audit_record(actor=actor, act=act, subject=scope, **change)
    found = breaker_find(actor, scope, kind)
    assert found is not None
    return found


def _meanwhile(seen: BreakerView) -> Refused:
    stands = SAID[seen.standing.state]
    message = f"the circuit breaker of {seen.words} changed meanwhile: it is {stands} now; look at it again"
    return Refused(message, code="conflict", field="generation")


SAID = {
    BreakerState.CLOSED: "closed",
    BreakerState.OPEN: "open",
    BreakerState.HALF_OPEN: "half open",
    BreakerState.STOPPED: "stopped",
}
"""Word for each state; a test shows that it is total."""


def _change(scope: str, kind: str, generation: int, stands: Standing) -> bool:
    """Change a breaker as the stores' ``change`` does, in the caller's transaction; return True if it was unchanged."""
    now, state = store_now(), encode_standing(stands)
    if generation == 0:
        fresh = {"state": state, "generation": 1, "changed_at": now}
        done = Guard.objects.get_or_create(scope=scope, kind=kind, defaults=fresh)[1]
    else:
        row = Guard.objects.filter(scope=scope, kind=kind, generation=generation)
        changed = {"state": state, "generation": F("generation") + 1, "changed_at": now}
        done = bool(row.update(**changed, permits="{}"))
    if done:
        GuardChange.objects.create(scope=scope, kind=kind, generation=generation + 1, state=state, at=now)
    return done


# -- pruning -----------------------------------------------------------------------------------------------------------


def guard_changes_prune(*, now: int | None = None) -> int:
    """Delete the log's lines that are ``KEPT_US`` old, and return their number; the guards' rows have their state.
    ``now``: microseconds since the epoch.
    """
    until = (time.time_ns() // 1_000 if now is None else now) - KEPT_US
    return GuardChange.objects.filter(at__lte=until).delete()[0]


def guard_changes_to_prune() -> bool:
    """Return True if the log has any change; in most installations no breaker has changed for days."""
    return GuardChange.objects.exists()
