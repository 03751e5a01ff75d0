"""`manage.py breaker list|open|reset`: shows circuit breakers; opens or resets one by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.words import duration, words
from fabric.management.base import OK, FabricCommand
from fabric.program.name import program
from fabric.selectors.models.breakers import BreakerView, list_breaker_views
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.models.breakers import SAID, breaker_force_open, breaker_reset


class Command(FabricCommand):
    """Lists breakers, or moves one."""

    help = "List the circuit breakers of this workspace's calls, or open or reset one by hand, in every worker within a second. A breaker opened by hand stays open until it is reset."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="VERB")
        listing = actions.add_parser("list", help="each breaker with its state")
        opening = actions.add_parser("open", help="let no call pass a breaker until it is reset")
        reset = actions.add_parser("reset", help="close a breaker; its trips are forgotten")
        for one in (opening, reset):
            one.add_argument("scope", metavar="NAME|SCOPE", help="name or scope, as listed")
            one.add_argument("--kind", default="", help="which one, where several have the name, as listed")
            one.add_argument("--reason", default="", help="why: kept with the breaker and in the audit stream; needed")
        for one in (listing, opening, reset):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        found: Sequence[BreakerView] = list_breaker_views(actor)
        if options["action"] != "list":
            service = breaker_force_open if options["action"] == "open" else breaker_reset
            found = [_move_breaker(service, actor, found, options)]
        if options["json"]:
            self.put({"breakers": [breaker_json(one) for one in found]})
            return OK
        named = Counter(map(_name, found))
        for one in found:
            kind = f" ({one.kind})" if named[_name(one)] > 1 else ""
            self.stdout.write(f"{_name(one)}{kind}: {_line(one)}")
        if not found:
            self.stdout.write(
                "No fabric has a circuit breaker: one that names no policy.breakers has one in front of each provider."
            )
        return OK


def _name(one: BreakerView) -> str:
    """Return its name for people: ``agent checker, claims-breaker``."""
    shared = one.over is BreakerScope.PROVIDER or one.name in one.fabrics
    return f"{words(one.over)} {one.name}" + ("" if shared else f", {' and '.join(one.fabrics)}")


def _move_breaker(
    service: Callable[..., BreakerView], actor: Actor, found: Sequence[BreakerView], options: dict[str, Any]
) -> BreakerView:
    named, kind, reason = options["scope"], options["kind"], options["reason"]
    meant = [one for one in found if named in (one.scope, _name(one), one.name) and kind in ("", one.kind)]
    if len(meant) != 1:
        those = "; ".join(f"{one.scope} --kind {one.kind}" for one in meant)
        message = (
            f"{named[:80]!r} names {len(meant)} circuit breakers; give one of: {those}"
            if meant
            else f"there is no circuit breaker {f'{named} {kind}'.strip()[:120]!r}; `{program()} breaker list` lists them"
        )
        raise Refused(message, code="invalid" if meant else "not_found", field="scope")
    (one,) = meant
    return service(actor=actor, scope=one.scope, kind=one.kind, generation=one.generation, reason=reason)


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
