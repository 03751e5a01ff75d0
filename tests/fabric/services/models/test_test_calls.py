"""Test calls of models, over real HTTP: what is seen, what goes wrong and how it is told, what it costs, and who may."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from fabric.composition.models import try_out
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import Cause
from fabric.models import AuditLine, ModelTest, ProviderKey
from fabric.providers import trial
from fabric.providers.trial import OUTPUT_TOKENS_MAX, CallTestResult, ProbeResult, trial_read, worst_cost, worst_probe
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.catalogue import models_list
from fabric.services.models.keys import key_set
from fabric.services.models.test_calls import AT_ONCE_MAX, model_test
from simulator.endpoint import ScriptedEndpoint, Step
from simulator.endpoint.player import PLAYS, Playing
from tests.fabric.services.models.scenes import DEAR, KEY, PRICED, able, fabric, plain

pytestmark = pytest.mark.django_db(transaction=True)
PRICE = Price(150_000, 600_000)
DEAR_PRICE = Price(3_000_000, 12_000_000)
OWN = "sk-of-the-environment"


@pytest.fixture
def asked(actor, settings):
    """Makes the test call of a fabric's model against a script; what became of it, and what the endpoint got."""

    def ask(script, *, price=PRICED, url="", key="", declared=""):
        with ScriptedEndpoint(script) as endpoint:
            settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = (
                url or endpoint.url,
                "small",
                OWN,
            )
            if key:
                key_set(actor=actor, provider="openai", host=endpoint.url, key=key)
            fabric_publish(actor=actor, source=fabric("asks", f"model: small, {price}{declared}"))
            model = next(one for one in models_list(actor).models if one.uses)
            return model_test(actor=actor, model_id=model.id, try_out=try_out, at_most=model.worst_usd_micros), endpoint

    return ask


def test_a_model_that_can_do_it_all_is_seen_to(asked):
    model, endpoint = asked(able)
    told = model.test
    assert told.trial.ok
    assert [(one.probe, one.seen) for one in told.trial.probes] == [("word", "yes"), ("schema", "yes"), ("tool", "yes")]
    assert (told.trial.answer, told.trial.tokens(), told.running) == ("ready", (72, 16), False)
    assert told.cost_usd_micros == PRICE.cost(72, 16)
    assert told.cost_usd_micros <= told.reserved_usd_micros == worst_cost(PRICE)
    assert [one.body["max_tokens"] for one in endpoint.received] == [OUTPUT_TOKENS_MAX] * 3
    assert {one.body["model"] for one in endpoint.received} == {"small"}


def test_one_that_answers_in_words_is_seen_to_do_neither_whatever_the_fabric_declares(asked):
    model, _ = asked(plain)
    assert [one.seen for one in model.test.trial.probes] == ["yes", "no", "no"]
    assert model.spec.structured_output
    assert "did not keep to the schema" in model.test.trial.probes[1].said


def test_what_is_declared_off_is_looked_for_all_the_same(asked):
    model, endpoint = asked(able, declared=", structured_output: false, tool_calls: false")
    assert [one.seen for one in model.test.trial.probes] == ["yes", "yes", "yes"]
    assert [bool(one.body.get("tools")) for one in endpoint.received] == [False, False, True]


def test_an_endpoint_that_knows_no_schema_is_seen_to_refuse_it(asked):
    refusing = Playing(PLAYS["no_schema"])
    model, _ = asked(lambda got: refusing.reply(got) if got.body.get("response_format") else able(got))
    assert model.test.trial.ok
    assert (model.test.trial.find_observation("schema"), model.test.trial.find_observation("tool")) == ("no", "yes")
    assert "does not take a response format" in model.test.trial.probes[1].said


@pytest.mark.parametrize("key", ["", KEY], ids=["the environment's", "stored"])
def test_it_goes_out_with_the_key_that_a_run_would_go_out_with(asked, actor, key):
    _, endpoint = asked(able, key=key)
    assert {one.key for one in endpoint.received} == {key or OWN}
    if key:
        stored = ProviderKey.objects.get()
        assert (stored.tested_ok, stored.tested_said[:8]) == (True, "It answe")
        assert stored.used_at is not None


WRONG = {
    "bad_key": (Cause.AUTH, "refused the key (HTTP 401); check FABRIC_MODEL_KEY"),
    "unknown_model": (Cause.UNKNOWN_MODEL, "has no model named 'small' (HTTP 404)"),
    "not_found": (Cause.BAD_CONFIGURATION, "the URL usually ends in /v1"),
    "retry_after": (Cause.RATE_LIMIT, "asks for fewer requests (HTTP 429)"),
    "quota": (Cause.QUOTA, "quota or credit is used up"),
    "unavailable": (Cause.SERVER_ERROR, "failed on its side (HTTP 503)"),
    "hang": (Cause.TIMEOUT, "seconds: no answer had begun"),
    "trickle": (Cause.TIMEOUT, "did not finish within 1."),
    "stall": (Cause.TIMEOUT, "did not finish within 1."),
    "dropped_stream": (Cause.DROPPED_STREAM, "broke off after"),
    "hang_up": (Cause.DROPPED_STREAM, "closed the connection without an answer"),
    "html": (Cause.MALFORMED_ANSWER, "with a web page instead of JSON"),
    "nothing": (Cause.MALFORMED_ANSWER, "with an empty body"),
    "cut_json": (Cause.MALFORMED_ANSWER, "not with JSON"),
    "error_body": (None, ""),
}
"""Ways to go wrong, by the scenario of the simulated endpoint: the cause and a part of the sentence; None: any."""


@pytest.mark.parametrize("scenario", WRONG)
def test_what_goes_wrong_is_told_in_a_sentence_and_no_more_is_asked(asked, monkeypatch, scenario):
    monkeypatch.setattr(trial, "DEADLINE_S", 1.0)
    cause, said = WRONG[scenario]
    began = time.monotonic()
    model, endpoint = asked(Playing(PLAYS[scenario]).reply)
    assert time.monotonic() - began < 30
    told = model.test
    assert (told.trial.ok, len(endpoint.received)) == (False, 1)
    assert cause is None or told.trial.cause == cause.value
    assert said in told.trial.said
    assert OWN not in told.trial.said
    # What may have been billed is charged at the most that it can be; what was refused is not.
    assert told.cost_usd_micros in (0, worst_probe("word", PRICE))
    assert (told.cost_usd_micros > 0) == told.trial.probes[0].billed


@pytest.mark.parametrize(
    ("url", "cause", "said"),
    [
        ("http://127.0.0.1:9/v1", Cause.NETWORK, "nothing answers at http://127.0.0.1:9/v1"),
        ("http://no-such-host.invalid/v1", Cause.NETWORK, "its name has no address"),
    ],
)
def test_an_unreachable_endpoint_is_told(asked, url, cause, said):
    model, endpoint = asked(able, url=url)
    assert (model.test.trial.cause, endpoint.received) == (cause.value, [])
    assert said in model.test.trial.said


def test_what_the_gate_refuses_is_told_and_not_asked(actor, settings):
    with ScriptedEndpoint(able) as endpoint:
        settings.FABRIC_ALLOWED_HOSTS = (endpoint.authority,)
        fabric_publish(actor=actor, source=fabric("asks", f"model: small, base_url: '{endpoint.url}', {PRICED}"))
        settings.FABRIC_ALLOWED_HOSTS = ()
        (model,) = models_list(actor).models
        told = model_test(actor=actor, model_id=model.id, try_out=try_out).test
        assert (told.trial.cause, endpoint.received) == (Cause.BAD_CONFIGURATION.value, [])
        assert "FABRIC_ALLOWED_HOSTS" in told.trial.said


def test_a_redirect_is_not_followed_and_the_key_stays(asked):
    with ScriptedEndpoint(able) as elsewhere:
        model, endpoint = asked([Step(status=307, headers={"Location": elsewhere.url}, body=b"")], key=KEY)
        assert "redirects are not followed" in model.test.trial.said
        assert (len(endpoint.received), elsewhere.received) == (1, [])
        assert ProviderKey.objects.get().tested_ok is False


def test_a_library_that_cannot_be_loaded_is_what_came_of_it(asked, monkeypatch):
    def missing(provider, now=None):
        raise ImportError("no module named openai")

    monkeypatch.setattr("fabric.composition.models.http_port", missing)
    model, _ = asked(able)
    assert "could not be asked here (ImportError: no module named openai)" in model.test.trial.said


def test_without_a_price_nothing_is_made_up(actor, settings):
    with ScriptedEndpoint(able) as endpoint:
        settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL = endpoint.url, "small"
        (model,) = models_list(actor).models
        told = model_test(actor=actor, model_id=model.id, try_out=try_out).test
        assert (told.trial.ok, told.reserved_usd_micros, told.cost_usd_micros) == (True, None, None)


# -- who may, when, how much --


def never(*_):
    raise AssertionError("no endpoint should be asked")


def answered(*_):
    return CallTestResult(ok=True, said="It answered.", cause="", probes=(ProbeResult(probe="word", seen="yes", said="", latency_ms=1),))  # fmt: skip


@pytest.fixture
def model(actor):
    fabric_publish(actor=actor, source=fabric("asks", f"model: gpt-4o-mini, {DEAR}", f"model: gpt-4o, {DEAR}", f"model: o3, {DEAR}", f"model: gpt-4.1, {DEAR}"))  # fmt: skip
    return next(one for one in models_list(actor).models if one.model == "gpt-4o-mini" and one.uses)


@pytest.fixture(autouse=True)
def _vendor(settings):
    settings.FABRIC_MODEL_URL = "https://api.openai.com/v1"


@pytest.mark.parametrize("role", ["operator", "viewer", "finance"])
def test_who_may_not_edit_may_not_test(actor, model, role):
    other = replace(actor, name="other", roles=frozenset({role}))
    with pytest.raises(Refused, match="may not make test calls of models: that is for editor or owner"):
        model_test(actor=other, model_id=model.id, try_out=never)
    assert ModelTest.objects.count() == AuditLine.objects.filter(kind="model_tested").count() == 0


def test_what_is_not_there_and_what_is_answered_here_is_refused(actor, small):
    with pytest.raises(Refused, match="there is no model 'nothing'"):
        model_test(actor=actor, model_id="nothing", try_out=never)
    (scripted,) = models_list(actor).models
    with pytest.raises(Refused, match="answers inside this installation"):
        model_test(actor=actor, model_id=scripted.id, try_out=never)


def test_a_model_that_is_asked_nowhere_says_what_to_set(actor, model, settings):
    settings.FABRIC_MODEL_URL = ""
    nowhere = next(one for one in models_list(actor).models if one.model == "gpt-4o-mini")
    with pytest.raises(Refused, match="has no endpoint: set its base_url, or FABRIC_MODEL_URL"):
        model_test(actor=actor, model_id=nowhere.id, try_out=never)


def test_it_is_not_made_for_more_than_was_told(actor, model):
    with pytest.raises(Refused, match="micro-dollars by now, but the form said 1") as refused:
        model_test(actor=actor, model_id=model.id, try_out=never, at_most=1)
    assert refused.value.code == "conflict"
    assert ModelTest.objects.count() == 0


def test_the_most_that_it_costs_is_written_down_before_anything_is_sent(actor, model):
    def look(*_):
        row = ModelTest.objects.get()
        assert (row.reserved_usd_micros, row.ended_at, row.started_by) == (worst_cost(DEAR_PRICE), None, "owner")
        line = AuditLine.objects.get(kind="model_tested")
        assert (line.subject, line.actor) == ("https://api.openai.com:443", "owner")
        assert json.loads(bytes(line.body))["reserved_usd_micros"] == worst_cost(DEAR_PRICE)
        return answered()

    assert model_test(actor=actor, model_id=model.id, try_out=look).test.trial.ok


def test_one_at_a_time_of_one_model_and_few_at_once_of_all(actor, model):
    models = [one for one in models_list(actor).models if one.uses]
    assert len(models) == AT_ONCE_MAX + 1

    def nested(rest):
        def ask(*_):
            with pytest.raises(Refused, match="under way: wait until"):
                model_test(actor=actor, model_id=rest[0].id, try_out=never)
            assert next(one for one in models_list(actor).models if one.id == rest[0].id).test.running
            if len(rest) > 2:
                model_test(actor=actor, model_id=rest[1].id, try_out=nested(rest[1:]))
            else:
                with pytest.raises(Refused, match=f"{AT_ONCE_MAX} test calls are under way"):
                    model_test(actor=actor, model_id=rest[1].id, try_out=never)
            return answered()

        return ask

    model_test(actor=actor, model_id=models[0].id, try_out=nested(models))
    assert ModelTest.objects.filter(ended_at__isnull=True).count() == 0


def test_one_whose_web_server_died_is_over_after_a_while_and_can_be_made_again(actor, model):
    class Died(BaseException):
        pass

    def die(*_):
        raise Died

    with pytest.raises(Died):
        model_test(actor=actor, model_id=model.id, try_out=die)
    seen = next(one for one in models_list(actor).models if one.id == model.id).test
    assert (seen.running, seen.trial, seen.reserved_usd_micros) == (True, None, worst_cost(DEAR_PRICE))
    ModelTest.objects.update(until=time.time_ns() // 1_000 - 1)
    assert not next(one for one in models_list(actor).models if one.id == model.id).test.running
    assert model_test(actor=actor, model_id=model.id, try_out=answered).test.trial.ok


def test_a_key_that_was_replaced_meanwhile_was_not_tested(actor, model):
    where = {"actor": actor, "provider": "openai", "host": "https://api.openai.com"}
    key_set(**where, key=KEY)

    def replaced(*_):
        key_set(**where, key="another-key-0123456789")
        return answered()

    model_test(actor=actor, model_id=model.id, try_out=replaced)
    assert ProviderKey.objects.get().tested_at is None


def test_what_came_of_one_that_cannot_be_read_is_none():
    assert trial_read(b"") is trial_read(b"{") is trial_read(b'{"ok": 1}') is None
