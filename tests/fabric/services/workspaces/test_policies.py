"""A workspace's policy as a service: who sets it, what of it is told, and that publication and running runs go by it."""

import json

import pytest

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Role
from fabric.models import AuditLine, Event, Review, SharedBudget, WorkspacePolicyVersion
from fabric.selectors.workspaces.policies import list_policies, standing_policy
from fabric.services.budgets.caps import budget_set
from fabric.services.errors import Refused
from fabric.services.fabrics.checks import fabric_lint
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.workspaces.policies import policy_set
from tests.fabric.services.world import PAYING, SMALL, SPARED_ONLY, ran

HOSTS = {"hosts": ["crm.example.com"]}
ORIGIN = "https://spare.example.org:443"
READS = PAYING.replace("effect: irreversible", "effect: read_only")


def refused(call, **given):
    with pytest.raises(Refused) as found:
        call(**given)
    return found.value


def lines():
    return [json.loads(bytes(one.body)) for one in AuditLine.objects.filter(kind="policy_set").order_by("at", "id")]


def test_versions_are_kept_and_each_change_is_told_with_before_and_after(actor):
    assert standing_policy(actor.workspace_id).number == 0
    first = policy_set(actor=actor, policy=HOSTS, expect=0)
    assert (first.number, first.set_by, first.policy.hosts) == (1, actor.name, ("crm.example.com",))
    assert policy_set(actor=actor, policy=HOSTS, expect=1).number == 1, "the same again is no new version"
    policy_set(actor=actor, policy={}, expect=1)
    assert [one.number for one in list_policies(actor.workspace_id)] == [2, 1]
    assert lines() == [{"before": {}, "after": HOSTS}, {"before": HOSTS, "after": {}}]


def test_two_who_set_it_at_once_are_one_after_the_other(actor):
    policy_set(actor=actor, policy=HOSTS, expect=0)
    found = refused(policy_set, actor=actor, policy={}, expect=0)
    assert (found.code, found.field) == ("conflict", "expect")
    assert "version 1 of the policy is in force" in found.message


@pytest.mark.parametrize("role", sorted(set(Role) - {Role.OWNER}))
def test_only_an_owner_sets_it(actor, role):
    other = Actor(name="u", workspace_id=actor.workspace_id, roles=frozenset({role}), signed_in_at=actor.signed_in_at)
    found = refused(policy_set, actor=other, policy=HOSTS, expect=0)
    assert (found.code, found.message) == ("forbidden", "u may not set the workspace's policy: that is for owner")
    assert not WorkspacePolicyVersion.objects.exists()


def test_it_wants_a_fresh_sign_in(actor):
    stale = Actor(name=actor.name, workspace_id=actor.workspace_id, roles=frozenset({"owner"}), signed_in_at=1)
    assert "sign in again" in refused(policy_set, actor=stale, policy=HOSTS, expect=0).message


@pytest.mark.parametrize(
    ("policy", "path"),
    [({"hosts": ["a/b"]}, "hosts.0"), ({"hopes": 1}, "hopes"), ([], "policy"), ({"tools": 3}, "tools")],
)
def test_a_policy_that_cannot_be_read_is_refused_with_its_place(actor, policy, path):
    found = refused(policy_set, actor=actor, policy=policy, expect=0)
    assert (found.code, found.field, found.message.partition(":")[0]) == ("invalid", path, path)


def test_publication_and_lint_refuse_what_the_policy_refuses_and_not_in_another_workspace(actor, stranger):
    policy_set(actor=actor, policy={"irreversible": ["http:pay.invalid/*"]}, expect=0)
    found = refused(fabric_publish, actor=actor, source=READS)
    assert (
        "tools.0.effect: is read_only, and the workspace's policy declares http:pay.invalid/payments" in found.message
    )
    assert "have an owner change the policy" in str(fabric_lint(actor=actor, source=READS))
    assert not standing_policy(stranger.workspace_id).policy.irreversible


def test_a_revision_of_before_runs_under_the_policy(actor):
    fabric_publish(actor=actor, source=READS)
    policy_set(actor=actor, policy={"irreversible": ["http:pay.invalid/*"]}, expect=0)
    run = ran(actor, READS.partition("\n")[0].removeprefix("name: "))
    assert run.state == "waiting"
    asked = Review.objects.get(run_id=run.id)
    assert "which the workspace's policy declares irreversible (http:pay.invalid/*)" in asked.reason


def test_a_model_at_a_host_that_is_not_allowed_is_not_asked(actor):
    fabric_publish(actor=actor, source=SPARED_ONLY)
    policy_set(actor=actor, policy=HOSTS, expect=0)
    run = ran(actor, "spared")
    assert run.state != "completed"
    assert run.cost_usd_micros == 0
    assert not Event.objects.filter(run_id=run.id, kind="model_answered").exists()


def test_a_key_with_a_cap_is_spent_and_no_further(actor):
    fabric_publish(actor=actor, source=SPARED_ONLY)
    policy_set(actor=actor, policy={"keys": {ORIGIN: {"day_usd_micros": 10**6, "month_usd_micros": 10**7}}}, expect=0)
    run = ran(actor, "spared")
    assert run.state == "completed"
    day, month = SharedBudget.objects.filter(scope__startswith="key_", spent__gt=0).order_by("scope")
    assert (day.scope.split(":")[0], month.scope.split(":")[0]) == ("key_day", "key_month")
    assert (day.granted, month.granted) == (0, 0)
    assert 0 < day.spent == month.spent == run.cost_usd_micros
    policy_set(actor=actor, policy={"keys": {ORIGIN: {"day_usd_micros": 10}}}, expect=1)
    day.refresh_from_db()
    assert (day.cap_wanted, day.cap) == (10, day.spent), "today's budget follows at once, to no less than what is spent"
    over = ran(actor, "spared")
    assert over.state != "completed"
    day.refresh_from_db()
    assert day.spent == run.cost_usd_micros


def test_tomorrows_budget_of_a_key_begins_with_the_cap_of_now(actor):
    """The first caller then may be a run that was claimed under the policy of before."""
    policy_set(actor=actor, policy={"keys": {ORIGIN: {"day_usd_micros": 100, "month_usd_micros": 900}}}, expect=0)
    policy_set(actor=actor, policy={"keys": {ORIGIN: {"day_usd_micros": 10, "month_usd_micros": 90}}}, expect=1)
    caps = dict(SharedBudget.objects.filter(scope__startswith="key_").values_list("scope", "cap"))
    assert {scope.partition(":")[0]: cap for scope, cap in caps.items()} == {"key_day": 10, "key_month": 90}
    assert sorted(set(caps.values())) == [10, 90], caps
    assert len([scope for scope in caps if scope.startswith("key_month")]) == 2, "this month and the next"


def test_sessions_are_lowered_and_not_raised_again(actor):
    scope = "session:f:s"
    SharedBudget.objects.create(scope=scope, workspace_id=actor.workspace_id, cap=900, cap_wanted=900, spent=300)
    policy_set(actor=actor, policy={"caps": {"session_usd_micros": 200}}, expect=0)
    row = SharedBudget.objects.get(scope=scope)
    assert (row.cap_wanted, row.cap) == (200, 300)
    assert "lets a session spend 200" in refused(budget_set, actor=actor, amount=500, scope=scope).message


def test_a_fabric_without_a_policy_publishes_as_before(actor):
    assert fabric_publish(actor=actor, source=SMALL).changed
