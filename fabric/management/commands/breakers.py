"""`manage.py breakers`: shows the state of the workspace's circuit breakers; opens or resets one by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.values.words import duration
from fabric.management.base import OK, FabricCommand
from fabric.selectors.models.breakers import BreakerView, list_breaker_views
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.models.breakers import SAID, breaker_force_open, breaker_reset


class Command(FabricCommand):
    """Lists breakers, or moves one."""

    help = "List the circuit breakers of this workspace's calls, or open or reset one by hand, in every worker within a second. A breaker opened by hand stays open until it is reset."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--open", metavar="SCOPE", default="", help="let no call pass the breaker of this scope, as listed"
        )
        what.add_argument(
            "--reset", metavar="SCOPE", default="", help="close the breaker of this scope, its trips forgotten"
        )
        parser.add_argument("--kind", default="", help="which one, where a scope has several, as listed")
        parser.add_argument("--reason", default="", help="why: kept with the breaker and in the audit stream; needed")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        found: Sequence[BreakerView] = list_breaker_views(actor)
        for service, scope in ((breaker_force_open, options["open"]), (breaker_reset, options["reset"])):
            if scope:
                found = [_move_breaker(service, actor, found, scope, options["kind"], options["reason"])]
        if options["json"]:
            self.put({"breakers": [breaker_json(one) for one in found]})
            return OK
        for one in found:
            self.stdout.write(f"{one.scope} {one.kind}: {_line(one)}")
        if not found:
            self.stdout.write(
                "No fabric has a circuit breaker: one that names no policy.breakers has one in front of each provider."
            )
        return OK


def _move_breaker(
    service: Callable[..., BreakerView], actor: Actor, found: Sequence[BreakerView], scope: str, kind: str, reason: str
) -> BreakerView:
    meant = [one for one in found if one.scope == scope and kind in ("", one.kind)]
    if len(meant) != 1:
        those = ", ".join(one.kind for one in meant)
        message = (
            f"the scope {scope[:80]!r} has {len(meant)} circuit breakers; say which with --kind: {those}"
            if meant
            else f"there is no circuit breaker {f'{scope} {kind}'.strip()[:120]!r}; `manage.py breakers` lists them"
        )
        raise Refused(message, code="invalid" if meant else "not_found", field="scope")
    (one,) = meant
    return service(actor=actor, scope=scope, kind=one.kind, generation=one.generation, reason=reason)


def _line(one: BreakerView) -> str:
    standing = one.standing
    said = SAID[standing.state]
    if standing.signal:
        opened = standing.signal_words or standing.signal
        said += f" ({opened}{f' by {standing.by}: {standing.reason}' if standing.reason else ''})"
    if standing.held:
        said += ", until a person resets it"
    elif one.cooldown_left_us is not None:
        whose = "the Retry-After of its endpoint" if one.as_asked else "its cooldown"
        said += f", {duration(one.cooldown_left_us / 1_000_000)} of {whose} left"
    elif one.probes:
        said += f", probed by {', '.join(probe.holder for probe in one.probes)}"
    if one.nearest is not None and not standing.signal:
        said += f", {one.nearest.count} x {one.nearest.words} ({one.nearest.threshold_words})"
    return f"{said}; {one.trips} trip{'s' if one.trips != 1 else ''} in 24 h"


def breaker_json(one: BreakerView) -> dict[str, Any]:
    """Return a breaker as a program reads it; instants are microseconds since the epoch."""
    return {
        "scope": one.scope,
        "kind": one.kind,
        "fabrics": list(one.fabrics),
        "published": one.published,
        "state": one.standing.state.value,
        "held": one.standing.held,
        "signal": one.standing.signal,
        "by": one.standing.by,
        "reason": one.standing.reason,
        "generation": one.generation,
        "changed_at": one.changed_at,
        "cooldown_left_us": one.cooldown_left_us,
        "probe": one.probes[0].holder if one.probes else "",
        "probes": [{"holder": probe.holder, "until": probe.until} for probe in one.probes],
        "half_open_max": one.breaker.half_open_max,
        "trips_24h": one.trips,
        "signals": [
            {"names": list(each.signal.names), "mode": each.signal.mode, "threshold": each.signal.threshold}
            | {"count": each.count, "calls": each.calls, "share": each.share}
            for each in one.signals
        ],
    }
