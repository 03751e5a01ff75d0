"""Which models there are, where each is asked, with which key, and at what price of whose."""

from __future__ import annotations

import pytest

from fabric.core.values.cost import Price
from fabric.models import Revision
from fabric.providers.exchange.prices import list_verified_on
from fabric.services.actors import owner_actor
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.catalogue import DAY_US, OLD_DAYS, models_list
from fabric.services.models.keys import key_set
from tests.fabric.services.models.scenes import KEY, PRICED, fabric

OPENAI = "https://api.openai.com:443"


def published(actor, name, *models):
    return fabric_publish(actor=actor, source=fabric(name, *models))


def by_host(actor):
    return {(one.provider, one.host): one for one in models_list(actor).endpoints}


def test_nothing_is_named_and_nothing_is_there(actor):
    found = models_list(actor)
    assert (found.endpoints, found.unread) == ((), ())
    assert found.list_version
    assert list_verified_on().year >= 2026


def test_one_declaration_in_two_fabrics_is_one_model_with_both_uses(actor, settings):
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL = "https://api.openai.com/v1", "gpt-4o-mini"
    published(actor, "first", "model: gpt-4o-mini")
    published(actor, "second", f"model: gpt-4o-mini, {PRICED}", "provider: openai")
    endpoint = by_host(actor)["openai", OPENAI]
    plain, own_price = sorted(endpoint.models, key=lambda one: one.price.source, reverse=True)
    assert plain.own
    assert [(use.fabric, use.name, use.agents) for use in plain.uses] == [
        ("first", "m0", ("planner", "reader")),
        ("second", "m1", ()),
    ]
    assert [use.fabric for use in own_price.uses] == ["second"]
    assert (plain.price.source, own_price.price.source) == ("list", "fabric")
    assert own_price.price.price == Price(150_000, 600_000)
    assert (plain.context_tokens, plain.context_source) == (128_000, "list")


def test_scripted_models_of_one_price_are_one_model_whatever_their_scripts(actor):
    for name, script in (("first", "{delay_s: 1}"), ("second", "{score: 0.5}")):
        published(actor, name, f"provider: scripted, model: same, {PRICED}, options: {script}")
    (model,) = by_host(actor)["scripted", ""].models
    assert [use.fabric for use in model.uses] == ["first", "second"]


@pytest.mark.parametrize(
    ("key", "told"), [("", ""), ("sk-of-the-environment", "FABRIC_MODEL_KEY")], ids=["no key", "a key"]
)
def test_a_key_of_the_environment_is_told_by_its_variable(actor, settings, key, told):
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL_KEY = "http://127.0.0.1:8000/v1", key
    found = models_list(actor)
    (endpoint,) = found.endpoints
    assert (endpoint.own, endpoint.key_from, endpoint.key, endpoint.models) == (True, told, None, ())
    assert not key or key not in repr(found)


def test_a_stored_key_is_told_by_its_end_beside_the_environments(actor, settings):
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL_KEY = "https://api.openai.com/v1", "sk-of-the-environment"
    key_set(actor=actor, provider="openai", host="https://api.openai.com", key=KEY)
    key_set(actor=actor, provider="google", host="https://unused.example.org", key=KEY)
    found = by_host(actor)
    assert found["openai", OPENAI].key.last_four == KEY[-4:]
    assert found["openai", OPENAI].key_from == "FABRIC_MODEL_KEY"
    assert found["google", "https://unused.example.org:443"].models == ()
    assert list(found) == [("openai", OPENAI), ("google", "https://unused.example.org:443")]
    assert KEY not in repr(found)


def test_what_is_answered_here_has_no_host_and_comes_last(actor, small, settings):
    settings.FABRIC_MODEL_URL = "http://127.0.0.1:8000/v1"
    scripted = by_host(actor)["scripted", ""]
    assert list(by_host(actor))[-1] == ("scripted", "")
    assert (scripted.models[0].testable, scripted.models[0].price.price) == (False, Price(1_000_000, 2_000_000))


def test_unpriced_is_not_zero_and_zero_is_written(actor, settings):
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL = "http://127.0.0.1:8000/v1", "local"
    settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:9000",)
    free = "price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
    published(actor, "free", f"model: small, base_url: 'http://127.0.0.1:9000/v1', {free}")
    found = by_host(actor)
    own, other = (found["openai", f"http://127.0.0.1:{port}"].models[0] for port in (8000, 9000))
    assert (own.price.price, own.price.source, own.price.zero, own.worst_usd_micros) == (None, "none", False, None)
    assert (other.price.price, other.price.source, other.price.zero, other.worst_usd_micros) == (Price(0, 0), "fabric", True, 0)  # fmt: skip


def test_an_old_price_is_marked_from_any_source(actor, settings):
    settings.FABRIC_MODEL_URL = "https://api.openai.com/v1"
    own = "price: {input_usd_per_mtok: 3, output_usd_per_mtok: 12}"
    published(actor, "listed", "model: gpt-4o-mini", f"model: gpt-4o, {own}")
    now = models_list(actor).now

    def old(days):
        found = models_list(actor, now=now + days * DAY_US).models
        return {one.price.source: one.price.old for one in found}

    assert old(0)["fabric"] is False
    assert old(OLD_DAYS + 1) == {"list": True, "fabric": True}


def test_a_revision_that_this_version_cannot_read_is_named(actor):
    published(actor, "broken", "model: gpt-4o-mini")
    Revision.objects.update(spec='{"name": 7}')
    from fabric.selectors.fabrics.lookup import revision_spec

    revision_spec.cache_clear()
    found = models_list(actor)
    assert (found.models, found.unread) == ((), ("broken",))


def test_another_workspace_sees_none_of_it(actor, stranger):
    published(actor, "mine", "model: gpt-4o-mini, base_url: 'https://api.openai.com/v1'")
    key_set(actor=actor, provider="openai", host="https://api.openai.com", key=KEY)
    assert models_list(stranger).endpoints == ()
    assert len(models_list(owner_actor()).endpoints) == 1
