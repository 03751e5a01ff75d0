"""Test calls of models keep to the workspace's policy: its hosts, and the caps of the key that they go out with."""

from __future__ import annotations

import pytest

from fabric.composition.models import try_out
from fabric.core.values.cost import Price
from fabric.models import AuditLine, ModelTest, SharedBudget
from fabric.providers.trial import worst_cost
from fabric.services.budgets.keys import key_budgets
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.catalogue import models_list
from fabric.services.models.test_calls import model_test
from fabric.services.workspaces.policies import policy_set
from simulator.endpoint import ScriptedEndpoint
from tests.fabric.services.models.scenes import PRICED, able, fabric

pytestmark = pytest.mark.django_db(transaction=True)
PRICE = Price(150_000, 600_000)
WORST, COST = worst_cost(PRICE), PRICE.cost(72, 16)


@pytest.fixture
def endpoint(settings):
    with ScriptedEndpoint(able) as found:
        settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = found.url, "small", "sk-own"
        settings.FABRIC_ALLOWED_HOSTS = (found.authority,)
        yield found


def tried(actor, *, how=try_out):
    model = next(one for one in models_list(actor).models if one.uses)
    return model_test(actor=actor, model_id=model.id, try_out=how)


def refused(actor):
    with pytest.raises(Refused) as found:
        tried(actor)
    assert not ModelTest.objects.exists()
    assert not AuditLine.objects.filter(kind="model_tested").exists()
    return found.value


def capped(actor, endpoint, expect=0, **caps):
    origin = f"http://{endpoint.authority}"
    policy_set(actor=actor, policy={"keys": {origin: caps}}, expect=expect)


def spent(actor):
    return [(one.period, one.spent, one.granted) for one in key_budgets(actor)]


def test_a_test_call_counts_against_the_caps_of_its_key(actor, endpoint):
    fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
    capped(actor, endpoint, day_usd_micros=WORST, month_usd_micros=10 * WORST)
    assert tried(actor).test.cost_usd_micros == COST
    assert spent(actor) == [("day", COST, 0), ("month", COST, 0)]


def test_its_worst_case_is_reserved_while_it_is_under_way(actor, endpoint):
    fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
    capped(actor, endpoint, day_usd_micros=2 * WORST)
    seen = []

    def watched(spec, workspace_id):
        seen.extend(SharedBudget.objects.filter(spent__gt=0).values_list("spent", flat=True))
        return try_out(spec, workspace_id)

    tried(actor, how=watched)
    assert (seen, spent(actor)) == ([WORST], [("day", COST, 0)])


@pytest.mark.parametrize("period", ["day", "month"])
def test_one_that_no_cap_has_room_for_is_not_made(actor, endpoint, period):
    fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
    caps = {"day_usd_micros": 10 * WORST, "month_usd_micros": 10 * WORST, f"{period}_usd_micros": WORST - 1}
    capped(actor, endpoint, **caps)
    found = refused(actor)
    assert (found.code, found.field) == ("conflict", "model")
    assert f"for this {period}, and the call may cost" in found.message
    assert found.message.endswith("an owner raises it in the policy")
    assert endpoint.received == []
    assert {one for _, *amounts in spent(actor) for one in amounts} == {0}, "what the other cap gave came back"


def test_the_operators_caps_hold_too(actor, endpoint, settings):
    fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
    settings.FABRIC_KEY_CAPS = ((f"http://{endpoint.authority}", "day", WORST - 1),)
    assert refused(actor).message.endswith("the operator raises FABRIC_KEY_CAPS")


def test_a_model_without_a_price_fits_no_cap(actor, endpoint, settings):
    capped(actor, endpoint, day_usd_micros=10**9)
    (model,) = models_list(actor).models
    assert model.worst_usd_micros is None
    with pytest.raises(Refused, match="has no price, so no call of it fits the cap of the keys at"):
        model_test(actor=actor, model_id=model.id, try_out=try_out)
    assert endpoint.received == []


def test_a_model_at_a_host_that_the_policy_does_not_allow_is_not_asked(actor, endpoint):
    source = fabric("asks", f"model: small, base_url: '{endpoint.url}', {PRICED}")
    fabric_publish(actor=actor, source=source)
    policy_set(actor=actor, policy={"hosts": ["api.example.com"]}, expect=0)
    found = refused(actor)
    assert (found.code, found.field) == ("invalid", "model")
    assert "is not among those that the workspace's policy allows" in found.message
    assert endpoint.received == []
    policy_set(actor=actor, policy={"hosts": ["127.0.0.1"]}, expect=1)
    assert tried(actor).test.trial.ok


def test_the_operators_own_endpoint_is_no_host_of_the_policys(actor, endpoint):
    fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
    policy_set(actor=actor, policy={"hosts": ["api.example.com"]}, expect=0)
    assert tried(actor).test.trial.ok
