"""What must be true of budgets that runs share, whatever dies and whenever: the sums are counted here anew, from the store's rows and the journals' facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from fabric.runtime.grant_ports import Held, SettledBy
from simulator.kernel.seen import Seen, on

if TYPE_CHECKING:
    from simulator.kernel.world import World

Attempt = tuple[str, str, int]
AFTER_US = 60_000_000
"""When the lease of whoever died last has lapsed."""
WORST = (SettledBy.REAPED, SettledBy.UNKNOWN)
"""Reasons for which a reservation stands at its worst case."""


def cap_workspace(world: World) -> None:
    """Gives the workspace of some seeds a cap, where caps are drawn."""
    if world.setup.caps and world.setup.seed % 5 == 0:
        name = world.setup.names.workspace_id
        world.grants.set_cap(f"workspace:{name}", 60_000, workspace_id=name)


def session_of(world: World) -> str:
    """Runs of a fabric that caps sessions share one."""
    caps = world.setup.fabric.compiled.spec.policy.budget
    capped = caps.session_usd_micros is not None or caps.session_tokens is not None
    return "s" if capped and world.setup.seed % 2 else ""


def scopes(world: World) -> tuple[str, ...]:
    """The shared budgets that every run of a world falls under."""
    fabric = world.setup.fabric
    caps = fabric.compiled.spec.policy.budget
    found = [f"fabric:{fabric.revision_id}"] if caps.fabric_hour_usd_micros is not None else []
    if session_of(world):
        kinds = {"session": caps.session_usd_micros, "session_tokens": caps.session_tokens}
        found += [f"{kind}:{fabric.revision_id}:s" for kind, cap in kinds.items() if cap is not None]
    return (*found, *(scope for scope, _ in world.grants.all_budgets() if scope.startswith("workspace:")))


# -- at each look at the store -----------------------------------------------------------------------------------------


def kept(world: World) -> Iterator[tuple[str, str]]:
    """Every cap is kept, and what is granted is the sum of what processes hold."""
    grants = world.grants.all_grants()
    held: Counter[str] = Counter()
    for grant in grants:
        if grant.state != "closed":
            held[grant.scope] += grant.amount
    for scope, budget in world.grants.all_budgets():
        if budget.spent + budget.granted > budget.cap:
            said = f"{scope}: {budget.spent} spent and {budget.granted} granted of {budget.cap}"
            yield "caps_are_kept", said
        if held[scope] != budget.granted:
            yield "grants_add_up", f"{scope}: {budget.granted} are granted, processes hold {held[scope]}"
    for grant in grants:
        rows = world.grants.held(grant.grant_id)
        used = sum(one.usd_micros if one.settled is None else min(one.settled, one.usd_micros) for one in rows)
        dearer = sum(max(0, (one.settled or 0) - one.usd_micros) for one in rows)
        if used > grant.amount + dearer:
            yield "grants_are_not_overdrawn", f"{grant.grant_id} is over {grant.amount} and has reservations of {used}"


# -- with each event ---------------------------------------------------------------------------------------------------


@on("call_issued")
def reserved_in_every_scope(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call that may cost something is reserved at its worst case in each budget that its run falls under, and in no other."""
    amounts = {scope: fact.reserved_tokens if _of_tokens(scope) else fact.reserved_usd_micros for scope in seen.scopes}
    wanted = {scope: amount for scope, amount in amounts.items() if amount}
    found = {use.scope: use.usd_micros for use in fact.grants}
    for use in fact.grants:
        name = _name(fact.command_id, _of_tokens(use.scope))
        seen.granted.setdefault((name, fact.attempt), set()).add(use.grant_id)
    return "" if found == wanted else f"it is reserved as {found}, and should be as {wanted}"


ANSWERS = ("model_answered", "tool_answered", "input_requested")


@on(*ANSWERS, "attempt_failed", "attempt_interrupted", "call_aborted")
def charged(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes what an attempt cost: the first word on it counts."""
    cost = fact.cost_usd_micros if fact.kind in ANSWERS else fact.charged_usd_micros
    seen.charges.setdefault((fact.command_id, fact.attempt), cost)
    if fact.kind == "model_answered":
        tokens = fact.input_tokens + fact.output_tokens
    else:
        tokens = getattr(fact, "charged_tokens", 0)
    seen.charges.setdefault((_name(fact.command_id, tokens=True), fact.attempt), tokens)
    return ""


def _of_tokens(scope: str) -> bool:
    return scope.startswith("session_tokens:")


def _name(command_id: str, tokens: bool) -> str:
    """The name of a call's reservation of money, or of tokens."""
    return f"{command_id}#tokens" if tokens else command_id


@on("reaction_decided")
def refusals_say_where_it_stood(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """The evidence of a refusal bears it out: what was left was less than what the call may take."""
    for trip in (fact.cause, *fact.causes):
        told = trip.evidence.details
        if trip.mechanism == "budget" and "budget" in told:
            left = trip.evidence.limit - told["spent"] - told["granted"]
            if left >= told["worst_case"]:
                return f"{told['worst_case']} were refused although {left} were left of {told['budget']}"
    return ""


# -- at the end --------------------------------------------------------------------------------------------------------


def settled(world: World, runs: list[Seen]) -> Iterator[tuple[str, str]]:
    """Once every process is gone and its grants were reaped, nothing is held, and each reservation stands at what its journal says, or at its worst."""
    for process in list(world.processes):
        world.store.retire(process.name)
    world.clock.move_to(world.clock.now() + AFTER_US)
    world.grants.reap()
    yield from kept(world)
    spent: Counter[str] = Counter()
    rows: dict[Attempt, list[tuple[str, Held]]] = {}
    for grant in world.grants.all_grants():
        if grant.state != "closed":
            yield "nothing_is_held", f"{grant.grant_id} of {grant.scope} is {grant.state} at the end of the world"
        for one in world.grants.held(grant.grant_id):
            rows.setdefault((one.run_id, one.command_id, one.attempt), []).append((grant.grant_id, one))
            spent[grant.scope] += one.settled or 0
            world.sometimes["reaped"] += one.reason == SettledBy.REAPED
    for seen in runs:
        yield from _agree(seen, rows)
    for scope, budget in world.grants.all_budgets():
        if not budget.hourly and spent[scope] != budget.spent + budget.overrun:
            said = f"{scope}: {budget.spent} and {budget.overrun} over, its reservations come to {spent[scope]}"
            yield "budgets_add_up", said


def _agree(seen: Seen, rows: dict[Attempt, list[tuple[str, Held]]]) -> Iterator[tuple[str, str]]:
    for (command_id, attempt), grants in seen.granted.items():
        found = rows.get((seen.run_id, command_id, attempt), [])
        name = f"{command_id}#{attempt} of {seen.run_id}"
        if {grant for grant, _ in found} != grants:
            yield "journal_and_budgets_agree", f"{name} is reserved from {found}, its journal says {grants}"
        charged = seen.charges.get((command_id, attempt))
        for _, one in found:
            expected = one.usd_micros if one.reason in WORST else charged
            if one.settled is None or one.settled != expected:
                said = f"{name} stands at {one.settled} ({one.reason}) of {one.usd_micros}, charged {charged}"
                yield "unknown_is_worst", said
