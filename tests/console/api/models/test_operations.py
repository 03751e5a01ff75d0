"""Models over the API: listed with their prices, keys stored and deleted, test calls; and no key in any answer."""

from __future__ import annotations

import pytest

from console.site.requests.throttle import MODEL_TESTS
from fabric.core.people.scopes import Scope
from fabric.models import ProviderKey
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.catalogue import models_list
from fabric.services.people.tokens import token_create
from simulator.endpoint import ScriptedEndpoint, refusal
from tests.console.api.client import Program
from tests.fabric.services.models.scenes import KEY, PRICED, able, fabric

MODELS = "/api/v1/models"
KEYS = f"{MODELS}/keys"
PLACE = {"provider": "openai", "host": "https://api.openai.com/v1"}


@pytest.fixture
def published(actor, settings):
    """An endpoint of the operator's that can do all, and a fabric that asks it."""
    with ScriptedEndpoint(able) as endpoint:
        settings.FABRIC_MODEL_URL = endpoint.url
        fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
        yield endpoint


def test_models_are_listed_with_prices_and_whose_key(program, published, settings):
    settings.FABRIC_MODEL_KEY = "sk-of-the-environment"
    answer = program.get(MODELS)
    told = answer.json()
    (one,) = told["models"]
    assert (one["provider"], one["model"], one["key_from"]) == ("openai", "small", "FABRIC_MODEL_KEY")
    assert (one["price"]["input_usd_micros_per_mtok"], one["price"]["source"]) == (150_000, "fabric")
    assert one["uses"] == [{"fabric": "asks", "revision": 1, "name": "m0", "agents": ["planner", "reader"]}]
    assert (one["test"], told["keys"]) == (None, [])
    assert "sk-of-the-environment" not in answer.content.decode()


def test_unpriced_is_null(program, published, settings):
    settings.FABRIC_MODEL = "somebodys"
    own = program.get(MODELS).json()["models"][0]
    assert (own["price"]["input_usd_micros_per_mtok"], own["price"]["source"], own["test_usd_micros_max"]) == (None, "none", None)  # fmt: skip


def test_a_key_is_stored_replaced_and_deleted_and_never_told(program):
    stored = program.post(KEYS, {**PLACE, "key": KEY})
    assert (stored.status_code, stored.json()["last_four"]) == (200, KEY[-4:])
    assert stored.json()["host"] == "https://api.openai.com:443"
    listed = program.get(MODELS)
    assert [one["last_four"] for one in listed.json()["keys"]] == [KEY[-4:]]
    again = program.post(KEYS, {**PLACE, "key": "another-key-0123456789"})
    gone = program.post(f"{KEYS}/delete", PLACE)
    assert (gone.status_code, gone.json()["last_four"]) == (200, "6789")
    assert program.post(f"{KEYS}/delete", PLACE).status_code == 404
    assert all(KEY not in one.content.decode() for one in (stored, listed, again, gone))


@pytest.mark.parametrize(
    "body",
    [
        {**PLACE, "key": f"{KEY} {KEY}"},
        {**PLACE, "key": KEY * 100},
        {**PLACE, "key": KEY * 20},
        {**PLACE, "key": [KEY]},
        {**PLACE, "key": {"key": KEY}},
        {**PLACE, "key": KEY, "more": KEY},
        {"provider": KEY * 3, "host": "x", "key": KEY},
        {"key": KEY},
    ],
)
def test_what_cannot_be_taken_shows_no_key(program, body):
    answer = program.post(KEYS, body)
    assert answer.status_code == 422
    told = answer.content.decode()
    assert KEY not in told or KEY in str(body.get("provider"))
    assert ProviderKey.objects.count() == 0


def test_a_test_call_says_what_it_saw_and_what_it_cost(program, published, actor):
    (model,) = models_list(actor).models
    told = program.post(f"{MODELS}/{model.id}/test", {"at_most_usd_micros": model.worst_usd_micros}).json()
    assert told["test"]["ok"]
    assert {one["probe"]: one["seen"] for one in told["test"]["probes"]} == dict.fromkeys(("word", "schema", "tool"), "yes")  # fmt: skip
    assert 0 < told["test"]["cost_usd_micros"] <= told["test"]["reserved_usd_micros"] == told["test_usd_micros_max"]
    assert program.get(MODELS).json()["models"][0]["test"] == told["test"]


def test_a_failure_of_the_endpoint_is_an_answer_of_ours(program, actor, settings):
    with ScriptedEndpoint([refusal(404, "no such model", code="model_not_found")]) as endpoint:
        settings.FABRIC_MODEL_URL = endpoint.url
        fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
        (model,) = models_list(actor).models
        answer = program.post(f"{MODELS}/{model.id}/test", {})
    assert answer.status_code == 200
    assert (answer.json()["test"]["ok"], answer.json()["test"]["cause"]) == (False, "unknown_model")


def test_more_than_was_told_is_refused(program, published, actor):
    (model,) = models_list(actor).models
    assert program.post(f"{MODELS}/{model.id}/test", {"at_most_usd_micros": 1}).status_code == 409
    assert published.received == []


def test_too_many_are_told_to_wait(program, published, actor, settings):
    setattr(settings, MODEL_TESTS.setting, 1)
    (model,) = models_list(actor).models
    # Three, since a minute may end between the first and the second.
    sent = [program.post(f"{MODELS}/{model.id}/test", {}) for _ in range(3)]
    assert sent[0].status_code == 200
    refused = [one for one in sent[1:] if one.status_code == 429]
    assert refused
    assert all(int(one["Retry-After"]) > 0 for one in refused)


def test_keys_want_the_scope_of_managing(actor):
    secret = token_create(actor=actor, name="runs", scopes=(Scope.READ, Scope.START)).secret
    assert Program(secret).post(KEYS, {**PLACE, "key": KEY}).status_code == 403
    assert ProviderKey.objects.count() == 0
