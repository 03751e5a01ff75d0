"""Checks the budgets that runs share in the simulator, after any death. Has planted bugs too.

The sums are counted anew, from the store's rows and the journals' facts. Each planted bug removes one rule from
outside, so that the simulator can prove that it notices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fabric.core.decision.work import EmittedFact
from fabric.core.events.envelope import Event
from fabric.core.mechanisms import retry_budget
from fabric.core.state.run import Run
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import PASS, Verdict
from fabric.runtime import driver
from fabric.runtime.ports.batch_parts import Reservation, Settlement
from fabric.runtime.ports.batch_parts import SettledBy as SettledBecause
from fabric.runtime.ports.spending import OpenReservation, SettledBy
from fabric.runtime.spending import rules as grant_rules
from fabric.runtime.spending import shares
from fabric.worker.spending.grants import GrantBook
from simulator.clockwork.clock import SeenWorld
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check

Attempt = tuple[str, str, int]
AFTER_US = 60_000_000
"""Microseconds after which the lease of the last dead process has lapsed."""
WORST = (SettledBy.REAPED, SettledBy.UNKNOWN)
"""Reasons for which a reservation is settled at its worst case."""


def cap_workspace(world: SeenWorld) -> None:
    """Give the workspace of some seeds a cap, if caps are drawn."""
    if world.setup.caps and world.setup.seed % 5 == 0:
        name = world.setup.names.workspace_id
        world.grants.set_cap(f"workspace:{name}", 60_000, workspace_id=name)


def find_session(world: SeenWorld) -> str:
    """Return the session that all runs of a fabric with a cap on sessions share."""
    caps = world.setup.fabric.compiled.spec.policy.budget
    capped = caps.session_usd_micros is not None or caps.session_tokens is not None
    return "s" if capped and world.setup.seed % 2 else ""


def scopes(world: SeenWorld) -> tuple[str, ...]:
    """Return the shared budgets of every run of a world."""
    fabric = world.setup.fabric
    caps = fabric.compiled.spec.policy.budget
    found = [f"fabric:{fabric.revision_id}"] if caps.fabric_hour_usd_micros is not None else []
    if find_session(world):
        kinds = {"session": caps.session_usd_micros, "session_tokens": caps.session_tokens}
        found += [f"{kind}:{fabric.revision_id}:s" for kind, cap in kinds.items() if cap is not None]
    return (*found, *(scope for scope, _ in world.grants.all_budgets() if scope.startswith("workspace:")))


# -- at each look at the store -----------------------------------------------------------------------------------------


def check_caps(world: SeenWorld) -> Iterator[tuple[str, str]]:
    """Yield violations of: every cap is respected, and the granted sum equals the open grants of processes."""
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
        rows = world.grants.list_reservations(grant.grant_id)
        used = sum(one.usd_micros if one.settled is None else min(one.settled, one.usd_micros) for one in rows)
        dearer = sum(max(0, (one.settled or 0) - one.usd_micros) for one in rows)
        if used > grant.amount + dearer:
            yield "grants_are_not_overdrawn", f"{grant.grant_id} is over {grant.amount} and has reservations of {used}"


# -- with each event ---------------------------------------------------------------------------------------------------


@register_check("call_issued")
def reserved_in_every_scope(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call that may cost money is reserved at its worst case in exactly the budgets of its run."""
    amounts = {scope: fact.reserved_tokens if _of_tokens(scope) else fact.reserved_usd_micros for scope in seen.scopes}
    wanted = {scope: amount for scope, amount in amounts.items() if amount}
    found = {use.scope: use.usd_micros for use in fact.grants}
    for use in fact.grants:
        name = _name(fact.command_id, _of_tokens(use.scope))
        seen.granted.setdefault((name, fact.attempt), set()).add(use.grant_id)
    return "" if found == wanted else f"it is reserved as {found}, and should be as {wanted}"


ANSWERS = ("model_answered", "tool_answered", "input_requested")


@register_check(*ANSWERS, "attempt_failed", "attempt_interrupted", "call_aborted")
def record_charge(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the cost of an attempt; the first report counts."""
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
    """Return the name of a call's reservation of money, or of tokens."""
    return f"{command_id}#tokens" if tokens else command_id


@register_check("reaction_decided")
def refusals_say_where_it_stood(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The evidence of a refusal proves it: less was left than the call's worst case."""
    for trip in (fact.cause, *fact.causes):
        told = trip.evidence.details
        if trip.mechanism == "budget" and "budget" in told:
            left = trip.evidence.limit - told["spent"] - told["granted"]
            if left >= told["worst_case"]:
                return f"{told['worst_case']} were refused although {left} were left of {told['budget']}"
    return ""


# -- at the end --------------------------------------------------------------------------------------------------------


def check_settled(world: SeenWorld, runs: list[WatchedRun]) -> Iterator[tuple[str, str]]:
    """Yield violations after the end of all processes: nothing is reserved, and each reservation equals its charge.

    The charge is the journal's, or the worst case.
    """
    for process in list(world.processes):
        world.store.retire(process.name)
    world.clock.move_to(world.clock.now() + AFTER_US)
    world.grants.reap()
    yield from check_caps(world)
    spent: Counter[str] = Counter()
    rows: dict[Attempt, list[tuple[str, OpenReservation]]] = {}
    for grant in world.grants.all_grants():
        if grant.state != "closed":
            yield "nothing_is_held", f"{grant.grant_id} of {grant.scope} is {grant.state} at the end of the world"
        for one in world.grants.list_reservations(grant.grant_id):
            rows.setdefault((one.run_id, one.command_id, one.attempt), []).append((grant.grant_id, one))
            spent[grant.scope] += one.settled or 0
            world.sometimes["reaped"] += one.reason == SettledBy.REAPED
    for seen in runs:
        yield from _agree(seen, rows)
    for scope, budget in world.grants.all_budgets():
        if not budget.hourly and spent[scope] != budget.spent + budget.overrun:
            said = f"{scope}: {budget.spent} and {budget.overrun} over, its reservations come to {spent[scope]}"
            yield "budgets_add_up", said


def _agree(seen: WatchedRun, rows: dict[Attempt, list[tuple[str, OpenReservation]]]) -> Iterator[tuple[str, str]]:
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


IN_GRANTS = ("grant_without_cap_check", "reaper_refunds_unknown", "closed_grant_reserved")
"""Plants that the memory store applies itself.

1. the cap
2. the worst case of open reservations of dead processes
3. the state of a grant that is reserved from
"""


def _half_reserved(
    before: Run, emitted: Iterable[EmittedFact]
) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    reserved, settled = shares.list_entries(before, emitted)
    return reserved[1:], settled


def _unknown_is_free(
    before: Run, emitted: Iterable[EmittedFact]
) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    reserved, settled = shares.list_entries(before, emitted)
    return reserved, tuple(
        replace(one, usd_micros=0) if one.reason is SettledBecause.UNKNOWN else one for one in settled
    )


def _skip_shared_buckets(*_: Any) -> Verdict:
    """A retry takes no token of the shared buckets."""
    return PASS


def _spends_nothing(book: GrantBook, reservations: Iterable[Reservation]) -> None:
    """Every call spends a single chunk."""


GRANT_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    **dict.fromkeys(IN_GRANTS, nullcontext),
    "reservation_left_out": lambda: planting.attribute(driver, "list_entries", _half_reserved),
    "unknown_settled_free": lambda: planting.attribute(driver, "list_entries", _unknown_is_free),
    "retry_skips_shared_buckets": lambda: planting.attribute(retry_budget, "_ask_shared_buckets", _skip_shared_buckets),
    "retry_token_for_nothing": lambda: planting.attribute(grant_rules, "TOKEN", 0),
    "credit_without_pause": lambda: planting.attribute(grant_rules, "CREDIT_EVERY_US", 0),
    "grant_spent_twice": lambda: planting.attribute(GrantBook, "spend", _spends_nothing),
}
"""Plants by name."""
