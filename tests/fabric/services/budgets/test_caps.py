"""Caps that runs share: set by publication and by hand, kept by runs that really run, pruned, and put right from the journal."""

import json

import pytest

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.models import AuditLine, Fabric, GrantReservation, SharedBudget, SharedGrant
from fabric.selectors.budgets import list_budgets
from fabric.services.budgets.caps import KEPT_US, budget_set, grants_prune, grants_to_prune
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.projections import projections_rebuild
from tests.fabric.management.console import command
from tests.fabric.services.world import SMALL, ran

CAPPED = "run_usd_micros: 1000000, fabric_hour_usd_micros: {}"


def publish(actor, cap):
    fabric_publish(actor=actor, source=SMALL.replace("run_usd_micros: 1000000", CAPPED.format(cap)))
    return f"fabric:{Fabric.objects.get(name='small').id}"


def the(actor, scope):
    (found,) = [one for one in list_budgets(actor) if one.scope == scope]
    return found


# -- who sets them -----------------------------------------------------------------------------------------------------


def test_publication_sets_the_fabrics_cap_and_changes_it(actor):
    scope = publish(actor, 500)
    assert (the(actor, scope).cap, the(actor, scope).hourly) == (500, True)
    SharedBudget.objects.update(spent=300, granted=100, cap=500)
    assert publish(actor, 200) == scope
    row = SharedBudget.objects.get(scope=scope)
    assert (row.cap_wanted, row.cap, the(actor, scope).grantable) == (200, 400, 0)
    publish(actor, 900)
    assert the(actor, scope).grantable == 500


def test_a_fabric_without_a_cap_has_no_budget(actor, small):
    assert list_budgets(actor) == []


def test_the_workspaces_cap_is_set_by_hand_and_told(actor):
    stands = budget_set(actor=actor, amount=2_000)
    assert (stands.scope, stands.cap, stands.hourly) == (f"workspace:{actor.workspace_id}", 2_000, False)
    (line,) = AuditLine.objects.filter(kind="budget_set")
    assert json.loads(bytes(line.body)) == {"usd_micros": 2_000}


@pytest.mark.parametrize(
    ("given", "says", "code"),
    [
        ({"amount": -1}, "a cap of -1 micro-dollars is none", "invalid"),
        ({"amount": 5, "scope": "fabric:x"}, "a fabric's cap is budget.fabric_hour_usd_micros", "invalid"),
        ({"amount": 5, "scope": "session:x:y"}, "there is no budget 'session:x:y'", "not_found"),
        ({"amount": 5, "scope": "workspace:another"}, "there is no budget 'workspace:another'", "not_found"),
    ],
)
def test_what_cannot_be_set(actor, given, says, code):
    with pytest.raises(Refused, match=says) as refused:
        budget_set(actor=actor, **given)
    assert refused.value.code == code


def test_no_member_sees_or_sets_anothers(actor, stranger: Actor):
    budget_set(actor=actor, amount=2_000)
    SharedBudget.objects.create(scope="session:f:s", workspace_id=actor.workspace_id, cap=5, cap_wanted=5)
    assert list_budgets(stranger) == []
    with pytest.raises(Refused):
        budget_set(actor=stranger, amount=5, scope="session:f:s")
    assert budget_set(actor=actor, amount=7, scope="session:f:s").cap == 7


def test_the_command(actor):
    assert "No budget is shared yet" in command("budget", "list").out
    assert "$0.000000" not in command("budget", "set", "--usd", "12.5").out
    found = json.loads(command("budget", "list", "--json").out.splitlines()[-1])["budgets"]
    assert [(one["cap"], one["left"]) for one in found] == [(12_500_000, 12_500_000)]
    assert "'a lot' is no amount of dollars" in command("budget", "set", "--usd", "a lot").err


# -- runs under them ---------------------------------------------------------------------------------------------------


def test_a_run_under_a_cap_spends_of_it_and_gives_the_rest_back(actor):
    scope = publish(actor, 10_000_000)
    run = ran(actor, "small")
    assert run.state == "completed"
    stands = the(actor, scope)
    assert (stands.spent, stands.granted, stands.overrun) == (run.cost_usd_micros, 0, 0)


def test_a_run_over_it_ends_as_the_table_says(actor):
    scope = publish(actor, 100)
    run = ran(actor, "small")
    assert run.state == "aborted"
    assert "the fabric's budget for an hour" in run.reason
    assert (the(actor, scope).spent, the(actor, scope).granted) == (0, 0)


# -- afterwards --------------------------------------------------------------------------------------------------------


def test_closed_grants_go_after_a_week_and_what_they_came_to_stays(actor):
    scope = publish(actor, 10_000_000)
    run = ran(actor, "small")
    assert grants_to_prune()
    closed = max(SharedGrant.objects.values_list("closed_at", flat=True))
    assert grants_prune(now=closed + KEPT_US - 1_000_000_000) == 0
    assert grants_prune(now=closed + KEPT_US) > 0
    assert (GrantReservation.objects.count(), SharedGrant.objects.count()) == (0, 0)
    assert not grants_to_prune()
    assert the(actor, scope).spent == run.cost_usd_micros
    assert projections_rebuild(actor=actor, run_id=run.id, check=True).result == "same"


def test_reservations_are_rebuilt_from_the_journal(actor):
    publish(actor, 10_000_000)
    run = ran(actor, "small")
    before = list(GrantReservation.objects.order_by("command_id").values("command_id", "amount", "settled", "reason"))
    SharedGrant.objects.update(closed_at=None, state="open")
    first, second = GrantReservation.objects.order_by("command_id")[:2]
    GrantReservation.objects.filter(command_id=first.command_id).delete()
    GrantReservation.objects.filter(command_id=second.command_id).update(settled=None, reason="")
    looked = projections_rebuild(actor=actor, run_id=run.id, check=True)
    assert looked.result == "differs"
    assert [said.partition("grant")[2].partition(" is ")[2] for said in looked.says] == [
        "in the journal alone",
        "open, the journal has settled it",
    ]
    assert projections_rebuild(actor=actor, run_id=run.id).result == "repaired"
    after = list(GrantReservation.objects.order_by("command_id").values("command_id", "amount", "settled", "reason"))
    assert after == before


def test_what_a_closed_grant_came_to_is_not_rebuilt(actor):
    publish(actor, 10_000_000)
    run = ran(actor, "small")
    GrantReservation.objects.all().delete()
    assert projections_rebuild(actor=actor, run_id=run.id, check=True).result == "same"


def test_the_stores_set_the_same_cap(actor):
    scope = publish(actor, 500)
    assert wiring.grants().set_cap(scope, 300, workspace_id=actor.workspace_id).cap == 300
    assert the(actor, scope).cap == 300
