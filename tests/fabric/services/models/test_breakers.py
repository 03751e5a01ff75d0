"""Circuit breakers by hand: opened and reset on what was seen, with a reason, told to the audit stream; and the log of their changes, pruned."""

import json
import re
from dataclasses import replace

import pytest

from fabric.core.breaker.table import FORCED, BreakerState
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.models import AuditLine, GuardChange
from fabric.selectors.models.breakers import list_breaker_views
from fabric.services.errors import Refused
from fabric.services.models import breakers
from fabric.services.models.breakers import (
    KEPT_US,
    breaker_force_open,
    breaker_reset,
    guard_changes_prune,
    guard_changes_to_prune,
)
from tests.fabric.management.console import command
from tests.fabric.selectors.models.breaker_rows import STOPPED, TRIPPED, change, guarded, tell_to_wait


@pytest.fixture
def seen(actor):
    """The provider's breaker, closed."""
    guarded(actor)
    return the(actor)


def the(actor):
    (found,) = [one for one in list_breaker_views(actor) if one.over == BreakerScope.PROVIDER]
    return found


def asked(actor, seen, reason="they are down", **other):
    return {
        "actor": actor,
        "scope": seen.scope,
        "kind": seen.kind,
        "generation": seen.generation,
        "reason": reason,
    } | other


def acts():
    lines = AuditLine.objects.filter(kind__startswith="breaker").order_by("at", "id")
    return [(one.kind, one.actor, one.subject, json.loads(bytes(one.body))) for one in lines]


def test_opened_by_hand_it_is_held_until_a_person_resets_it(actor, seen):
    opened = breaker_force_open(**asked(actor, seen))
    standing = opened.standing
    assert (standing.state, standing.signal, standing.by, standing.reason, standing.held) == (
        BreakerState.OPEN, FORCED, actor.name, "they are down", True,
    )  # fmt: skip
    closed = breaker_reset(**asked(actor, opened, "they are back"))
    assert (closed.standing.state, closed.standing.by, closed.generation) == (BreakerState.CLOSED, actor.name, 2)
    told = {"breaker": seen.kind, "generation": 1, "reason": "they are down", "was": "closed", "is": "open"}
    back = {"breaker": seen.kind, "generation": 2, "reason": "they are back", "was": "open", "is": "closed"}
    assert acts() == [
        ("breaker_opened", actor.name, seen.scope, told),
        ("breaker_reset", actor.name, seen.scope, back),
    ]
    assert [(one.generation, one.standing.reason) for one in closed.changes] == [
        (2, "they are back"),
        (1, "they are down"),
    ]


def test_one_that_stopped_for_good_is_reset_and_its_trips_are_forgotten(actor, seen):
    change(seen, TRIPPED, STOPPED)
    assert breaker_reset(**asked(actor, the(actor))).standing.trips == 0


def test_a_reset_forgets_what_its_endpoint_wanted_to_wait_and_no_other_ones(actor, seen):
    tool = next(one for one in list_breaker_views(actor) if one.over == BreakerScope.TOOL)
    for one in (seen, tool):
        tell_to_wait(one, 900)
        change(one, TRIPPED)
    held = breaker_force_open(**asked(actor, the(actor)))
    assert held.retry_at == the(actor).retry_at > 0
    assert breaker_reset(**asked(actor, held)).retry_at == 0
    change(the(actor), TRIPPED)
    assert not the(actor).asked_longer
    assert next(one for one in list_breaker_views(actor) if one.over == BreakerScope.TOOL).asked_longer


def test_what_changed_meanwhile_is_refused_and_neither_logged_nor_told(actor, seen):
    change(seen, TRIPPED)
    with pytest.raises(Refused, match="provider scripted changed meanwhile: it is open now") as refusal:
        breaker_force_open(**asked(actor, seen))
    assert (refusal.value.code, refusal.value.field) == ("conflict", "generation")
    assert (acts(), GuardChange.objects.count()) == ([], 1)


def test_the_row_itself_decides_whose_change_it_takes(actor, seen):
    """The breaker that the service found may be over when it writes."""
    assert breakers._change(seen.scope, seen.kind, 0, TRIPPED)
    assert not breakers._change(seen.scope, seen.kind, 0, STOPPED)
    assert not breakers._change(seen.scope, seen.kind, 2, STOPPED)
    assert (the(actor).standing, GuardChange.objects.count()) == (TRIPPED, 1)
    assert breakers._change(seen.scope, seen.kind, 1, STOPPED)
    assert [one.standing for one in the(actor).changes] == [STOPPED, TRIPPED]


def test_what_stands_so_already_is_refused(actor, seen):
    with pytest.raises(Refused, match="is closed already: there is nothing to reset"):
        breaker_reset(**asked(actor, seen))
    change(seen, TRIPPED)
    held = breaker_force_open(**asked(actor, the(actor)))
    assert (held.standing.held, held.standing.trips) == (True, TRIPPED.trips)
    told = len(acts())
    with pytest.raises(Refused, match="is open already"):
        breaker_force_open(**asked(actor, held))
    assert len(acts()) == told == 1


@pytest.mark.parametrize(
    ("other", "code", "says"),
    [
        ({"reason": " \n "}, "invalid", "needs a reason"),
        ({"scope": "provider:none"}, "not_found", "no circuit breaker"),
        ({"kind": "circuit_breaker:0"}, "not_found", "no circuit breaker"),
    ],
)
def test_what_cannot_be_done_is_refused(actor, seen, other, code, says):
    with pytest.raises(Refused, match=says) as refusal:
        breaker_force_open(**asked(actor, seen, **other))
    assert (refusal.value.code, GuardChange.objects.count()) == (code, 0)


def test_it_is_for_operators_of_the_workspace(actor, seen, stranger):
    for roles in ((), ("reviewer", "finance")):
        with pytest.raises(Refused, match="that is for operator or owner") as refusal:
            breaker_force_open(**asked(replace(actor, roles=frozenset(roles)), seen))
        assert refusal.value.code == "forbidden"
    with pytest.raises(Refused, match="no circuit breaker"):
        breaker_force_open(**asked(replace(stranger, roles=frozenset({"operator"})), seen))
    assert breaker_force_open(**asked(replace(actor, roles=frozenset({"operator"})), seen)).standing.held


def test_every_state_has_its_word():
    assert set(breakers.SAID) == set(BreakerState)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_lists_and_moves_them(actor):
    assert "No fabric has a circuit breaker" in command("breaker", "list").out
    guarded(actor)
    assert "provider scripted: closed, 0 x timeout or server error" in command("breaker", "list").out
    said = command("breaker", "open", "provider:scripted", "--reason", "They are down.")
    assert (said.code, the(actor).standing.reason) == (0, "They are down.")
    assert "open (forced by owner: They are down.), until a person resets it; 0 trips in 24 h" in said.out
    (told,) = command("breaker", "reset", "provider:scripted", "--reason", "back", "--json").last["breakers"]
    assert (told["state"], told["by"], told["generation"], told["signals"][0]["share"]) == ("closed", "owner", 2, 0)
    change(the(actor), TRIPPED)
    assert re.search(
        r"open \(5 times timeout\), (60|59\.\d+) s of its cooldown left; 1 trip in 24 h", command("breaker", "list").out
    )
    tell_to_wait(the(actor), 900)
    assert re.search(
        r", (15|14\.\d+) min of the Retry-After of its endpoint left; 1 trip", command("breaker", "list").out
    )
    (told, *_) = command("breaker", "list", "--json").last["breakers"]
    assert 890_000_000 < told["cooldown_left_us"] <= 900_000_000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("open", "provider:scripted"), "needs a reason"),
        (("open", "provider:none", "--reason", "x"), "there is no circuit breaker 'provider:none'"),
        (("reset", "provider:scripted", "--reason", "x"), "closed already"),
    ],
)
def test_the_command_says_what_it_did_not_do(actor, seen, words, says):
    said = command("breaker", *words)
    assert says in said.err
    assert said.code
    assert GuardChange.objects.count() == 0


def test_of_several_in_one_scope_the_command_wants_to_know_which(actor):
    guarded(actor, "\n  breakers: [{preset: endpoint}, {preset: endpoint, cooldown_s: 9}]\n")
    assert (
        "names 2 circuit breakers; give one of: provider:scripted --kind circuit_breaker:"
        in command("breaker", "open", "provider:scripted", "--reason", "x").err
    )
    kind = list_breaker_views(actor)[1].kind
    assert command("breaker", "open", "provider:scripted", "--kind", kind, "--reason", "x").code == 0
    assert [one.standing.held for one in list_breaker_views(actor) if one.kind == kind] == [True]


# -- afterwards --------------------------------------------------------------------------------------------------------


def test_changes_are_forgotten_after_a_week(actor):
    assert not guard_changes_to_prune()
    for at in (1, 2):
        GuardChange.objects.create(scope="provider:x", kind="circuit_breaker:y", generation=at, state="", at=at)
    assert guard_changes_to_prune()
    assert guard_changes_prune(now=KEPT_US) == 0
    assert guard_changes_prune(now=KEPT_US + 1) == 1
    assert list(GuardChange.objects.values_list("generation", flat=True)) == [2]
    assert guard_changes_prune() == 1
