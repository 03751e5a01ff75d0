"""What people do to circuit breakers, and how long is kept what became of them."""

from __future__ import annotations

import time

from django.db import connection, transaction
from django.db.models import F

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.breaker.table import BreakerState, Happened, Standing, after, encoded
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.models import Guard, GuardChange, GuardCount
from fabric.runtime.grant_rules import UNTIL_RING
from fabric.selectors.breakers import BreakerView, breaker_find
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX

KEPT_US = 7 * 86_400 * 1_000_000
"""How long it can be looked at that a breaker changed."""


def breaker_force_open(*, actor: Actor, scope: str, kind: str, generation: int, reason: str) -> BreakerView:
    """Opens a breaker until somebody resets it: no call passes, in all processes within a second. ``generation``: as it was seen.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (it is open, or changed meanwhile).
    """
    asked = (actor, scope, kind, generation, reason)
    return _moved(*asked, Happened.FORCED_OPEN, Act.BREAKER_OPENED, "it lets no call through as it is")


def breaker_reset(*, actor: Actor, scope: str, kind: str, generation: int, reason: str) -> BreakerView:
    """Closes a breaker, its trips and what its endpoint wants to wait forgotten: calls pass and its signals are counted anew. ``generation``: as it was seen.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (it is closed, or changed meanwhile).
    """
    asked = (actor, scope, kind, generation, reason)
    return _moved(*asked, Happened.RESET, Act.BREAKER_RESET, "there is nothing to reset")


def may_move(actor: Actor) -> bool:
    """Whether somebody may open and reset breakers: it stops, or lets go, the calls of every run behind it."""
    return actor.may(Right.OPERATE)


def _moved(
    actor: Actor, scope: str, kind: str, generation: int, reason: str, how: Happened, act: Act, nothing: str
) -> BreakerView:
    right_wanted(actor, Right.OPERATE, "move circuit breakers")
    seen = breaker_find(actor, scope, kind)
    if seen is None:
        raise Refused(
            f"there is no circuit breaker {scope[:80]!r} {kind[:80]!r} in this workspace; `manage.py breakers` lists them",
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
    stands = after(seen.breaker, seen.standing, how, by=actor.name, reason=why)
    if stands is seen.standing:
        message = f"the circuit breaker of {seen.words} is {SAID[seen.standing.state]} already: {nothing}"
        raise Refused(message, code="conflict", field="scope")
    with transaction.atomic():
        if not _change(scope, kind, generation, stands):
            raise _meanwhile(breaker_find(actor, scope, kind) or seen)
        if how is Happened.RESET:
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
"""Total by test."""


def _change(scope: str, kind: str, generation: int, stands: Standing) -> bool:
    """The same as the stores' ``change``, in the transaction that this is called in."""
    now, state = _now(), encoded(stands)
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


def _now() -> int:
    """Microseconds on the clock that guards go by: the database's; on SQLite that is this machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])


# -- what is over ------------------------------------------------------------------------------------------------------


def guard_changes_prune(*, now: int | None = None) -> int:
    """Deletes the log's lines that are ``KEPT_US`` old; where guards stand is in their rows. How many lines. ``now``: microseconds since the epoch."""
    until = (time.time_ns() // 1_000 if now is None else now) - KEPT_US
    return GuardChange.objects.filter(at__lte=until).delete()[0]


def guard_changes_to_prune() -> bool:
    """Whether there is anything in the log at all; in most installations no guard has changed for days."""
    return GuardChange.objects.exists()
