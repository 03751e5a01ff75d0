"""The page of models and prices, without a script: endpoints and their keys, prices and whose they are, test calls; and no key on any page."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.core.cache import cache
from django.test import Client

from console.pages.models import views as page
from fabric.core.spec.tree import Capability
from fabric.models import ModelTest, ProviderKey
from fabric.providers.trial import CallTestResult, ProbeResult
from fabric.services.drafts.changes import draft_begin
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.catalogue import models_list
from fabric.services.models.keys import key_set
from simulator.endpoint import ScriptedEndpoint, refusal
from tests.fabric.services.models.scenes import DEAR, KEY, PRICED, able, fabric
from tests.people import member, signed_in

PAGE = "/models"
HOST = "https://api.openai.com/v1"
FORM = {"provider": "openai", "host": HOST, "key": KEY}


@pytest.fixture(autouse=True)
def _clear_throttle():
    cache.clear()


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def test_every_mark_is_shown_somehow():
    assert set(page.CAN) == set(Capability)
    assert set(page.MARKS) == {(declared, seen) for declared in (True, False) for seen in ("yes", "no", "unknown")}
    assert set(page.MARK_WORDS) == set(page.MARKS.values()) - {None}


def test_empty_it_says_how_there_comes_to_be_something(browser):
    shown = text(browser.get(PAGE))
    assert "No model is named yet" in shown
    assert "Set FABRIC_MODEL_URL and FABRIC_MODEL , or publish a fabric that names a model" in shown


def test_it_lies_in_the_navigation(browser):
    assert re.search(r'href="/models" aria-current="page"', browser.get(PAGE).content.decode())


def test_prices_are_told_with_whose_they_are_and_unpriced_is_no_zero(browser, actor, settings):
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = HOST, "no-such-model-anywhere", "sk-of-the-environment"  # fmt: skip
    free = "price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
    source = fabric("asks", f"model: gpt-4o, {DEAR}", "model: gpt-4o-mini", f"model: free, {free}")
    fabric_publish(actor=actor, source=source)
    shown = text(browser.get(PAGE))
    assert "Unpriced a fabric that names it has to give its price" in shown
    assert "$3 in · $12 out price from asks," in shown
    assert "$0.15 in · $0.60 out price list, verified" in shown
    assert "$0 in and out price from asks," in shown
    assert "128,000 tokens of context, says the list" in shown
    assert "asks r1 planner, reader" in shown
    assert "asks r1 fallback" in shown
    assert "Key from FABRIC_MODEL_KEY in the environment" in shown
    assert "sk-of-the-environment" not in browser.get(PAGE).content.decode()


def test_a_key_is_stored_told_by_its_end_replaced_and_deleted(browser, actor):
    fabric_publish(actor=actor, source=fabric("asks", f"model: gpt-4o, base_url: '{HOST}', {DEAR}"))
    assert "No key: calls go out without one." in text(browser.get(PAGE))
    answer = browser.post(PAGE + "/key", FORM, follow=True)
    assert "The key that ends in xyvu" not in text(answer)
    assert f"The key that ends in {KEY[-4:]} goes to https://api.openai.com:443 from now on" in text(answer)
    assert f"Key that ends in {KEY[-4:]} , stored by owner" in text(answer)
    assert KEY not in answer.content.decode()
    again = browser.post(PAGE + "/key", {**FORM, "key": "another-key-0123456789"}, follow=True)
    assert "Key that ends in 6789 , stored by owner" in text(again)
    gone = browser.post(PAGE + "/key/delete", {"provider": "openai", "host": "https://api.openai.com:443"}, follow=True)
    assert "The key that ended in 6789 is deleted" in text(gone)
    assert ProviderKey.objects.count() == 0
    late = browser.post(PAGE + "/key/delete", {"provider": "openai", "host": "https://api.openai.com:443"})
    assert (late.status_code, "No key is stored for" in text(late)) == (404, True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"host": "nowhere"}, "is no URL of an endpoint: give it in the field host"),
        ({"host": "http://127.0.0.1:9/v1"}, "is plain http"),
        ({"key": "short"}, "Key has 5 characters"),
        ({"key": f"{KEY} {KEY}"}, "a space or a character that no key has"),
        ({"provider": "scripted"}, "there are: openai, anthropic, google"),
    ],
)
def test_what_cannot_be_taken_stands_beside_its_field_and_the_key_is_not_sent_back(browser, wrong, said):
    answer = browser.post(PAGE + "/key", {**FORM, **wrong})
    shown = answer.content.decode()
    assert answer.status_code == 422
    assert said in text(answer)
    (field,) = wrong
    assert f'id="key-e-{field}"' in shown
    assert KEY not in shown
    assert field == "host" or HOST in shown


def test_one_that_does_not_open_is_the_pages_first_word(browser, actor, settings):
    key_set(actor=actor, provider="openai", host=HOST, key=KEY)
    ProviderKey.objects.update(host="https://moved.example:443")
    shown = text(browser.get(PAGE))
    assert "One stored key to be set again" in shown
    assert "Set this key again" in shown


def test_a_test_call_shows_what_it_saw(browser, actor, settings):
    with ScriptedEndpoint(able) as endpoint:
        settings.FABRIC_MODEL_URL = endpoint.url
        declared = "structured_output: false, capabilities: [vision]"
        fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}, {declared}"))
        (model,) = models_list(actor).models
        assert "never tested" in text(browser.get(PAGE))
        assert f'name="at_most" value="{model.worst_usd_micros}"' in browser.get(PAGE).content.decode()
        answer = browser.post(f"{PAGE}/{model.id}/test", {"at_most": model.worst_usd_micros})
        assert (answer.status_code, answer["Location"]) == (302, f"{PAGE}#m-{model.id}")
        shown = text(browser.get(PAGE))
    assert "small answered." in shown
    assert "Answered" in shown
    assert "tools : declared, and seen in the last test" in shown
    assert "schema : seen in the last test, though the fabric declares it off" in shown
    assert "vision : declared, not looked for yet" in shown
    assert len(endpoint.received) == 3


def test_what_went_wrong_is_told_and_leads_the_page(browser, actor, settings):
    with ScriptedEndpoint([refusal(401, "bad key", code="invalid_api_key")]) as endpoint:
        settings.FABRIC_MODEL_URL = endpoint.url
        fabric_publish(actor=actor, source=fabric("asks", f"model: small, {PRICED}"))
        (model,) = models_list(actor).models
        shown = text(browser.post(f"{PAGE}/{model.id}/test", {"at_most": model.worst_usd_micros}, follow=True))
    assert "One model did not answer the last test" in shown
    assert shown.count("refused the key (HTTP 401)") == 2


@pytest.fixture
def model(actor):
    fabric_publish(actor=actor, source=fabric("asks", f"model: gpt-4o, base_url: '{HOST}', {DEAR}"))
    return models_list(actor).models[0]


@pytest.mark.parametrize("told", ["", "x", "-1", "1e3", "٣", "9" * 20])
def test_a_form_that_does_not_say_what_was_agreed_to_asks_no_provider(browser, model, told):
    answer = browser.post(f"{PAGE}/{model.id}/test", {"at_most": told})
    assert (answer.status_code, "No test was made" in text(answer)) == (422, True)
    assert ModelTest.objects.count() == 0


def test_a_price_that_rose_meanwhile_asks_no_person(browser, model):
    answer = browser.post(f"{PAGE}/{model.id}/test", {"at_most": "1"})
    assert (answer.status_code, "reload the page" in text(answer)) == (409, True)
    assert ModelTest.objects.count() == 0


def test_too_many_in_a_minute_are_told_to_wait(browser, model, settings, monkeypatch):
    settings.FABRIC_MODEL_TESTS_PER_MINUTE = 1
    said = CallTestResult(ok=True, said="It answered.", cause="", probes=(ProbeResult(probe="word", seen="yes", said="", latency_ms=1),))  # fmt: skip
    monkeypatch.setattr(page, "try_out", lambda *_: said)
    sent = [browser.post(f"{PAGE}/{model.id}/test", {"at_most": "99999999"}) for _ in range(2)]
    assert [one.status_code for one in sent] == [302, 429]
    assert 0 < int(sent[1]["Retry-After"]) <= 60


def test_who_only_looks_on_sees_it_all_and_can_do_nothing(actor, model):
    key_set(actor=actor, provider="openai", host=HOST, key=KEY)
    answer = signed_in(member("vera", "viewer")).get(PAGE)
    shown = answer.content.decode()
    assert f"Key that ends in {KEY[-4:]}" in text(answer)
    assert 'name="key"' not in shown
    assert re.search(r'id="test-[0-9a-f]+" disabled aria-describedby="lacks"', shown)
    assert "Test calls are for editor or owner." in text(answer)


def test_an_editor_tests_and_stores_nothing(model):
    shown = signed_in(member("erik", "editor")).get(PAGE).content.decode()
    assert 'name="key"' not in shown
    assert re.search(r'id="test-[0-9a-f]+">', shown)


def test_names_of_others_are_shown_as_they_are(browser, actor, settings):
    settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:9",)
    model = """model: '<script>alert(1)</script>', base_url: 'http://127.0.0.1:9/v1'"""
    fabric_publish(actor=actor, source=fabric("asks", f"{model}, {PRICED}"))
    shown = browser.get(PAGE).content.decode()
    assert "<script>alert(1)" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "without TLS" in shown


@pytest.mark.django_db
def test_strangers_are_sent_to_the_login():
    assert Client(HTTP_HOST="127.0.0.1").post(PAGE + "/key", FORM)["Location"].startswith("/login")
    assert ProviderKey.objects.count() == 0


def test_a_used_model_that_lost_its_price_leads_the_page(browser, actor, settings):
    settings.FABRIC_MODEL_URL = HOST
    fabric_publish(actor=actor, source=fabric("asks", "model: gpt-4o"))
    assert "One endpoint without a key" in text(browser.get(PAGE))
    key_set(actor=actor, provider="openai", host=HOST, key=KEY)
    assert "Every model has a price" in text(browser.get(PAGE))
    settings.FABRIC_MODEL_URL = "http://127.0.0.1:9/v1"
    shown = text(browser.get(PAGE))
    assert "One model has no price" in shown
    assert "Unpriced no run calls it: add a price in the fabric" in shown
    settings.FABRIC_MODEL_URL = ""
    assert "One model without an endpoint" in text(browser.get(PAGE)), "it is worse than a price"


def test_an_endpoint_that_wants_a_key_and_has_none_says_so(browser, settings, actor):
    assert set(page.VARIABLES) == set(page.HTTP)
    settings.FABRIC_MODEL_URL = HOST
    shown = text(browser.get(PAGE))
    assert "No key, so calls are refused. Store a key or set FABRIC_MODEL_KEY ." in shown
    key_set(actor=actor, provider="openai", host=HOST, key=KEY)
    assert "its calls are refused" not in text(browser.get(PAGE))


def test_the_filter_leaves_the_models_of_a_fabric_a_draft_or_an_endpoint(browser, actor, settings):
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL = HOST, ""
    fabric_publish(actor=actor, source=fabric("bills", f"model: gpt-4o, {DEAR}"))
    fabric_publish(actor=actor, source=fabric("letters", f"model: gpt-4o-mini, {PRICED}"))
    draft_begin(actor=actor, name="notes", text=f"models: [{{name: any, model: gpt-4o-mini, {PRICED}}}]")
    shown = browser.get(PAGE).content.decode()
    assert 'href="/fabrics/notes/draft?part=models"' in shown
    assert "draft of <bdi>owner</bdi>" in shown
    assert 'href="/fabrics/bills?tab=agents"><bdi>bills</bdi> r1' in shown
    for find, count in (("BILLS", 1), ("notes", 1), ("reader", 2), ("openai", 2), ("gpt-4o-mini", 1)):
        assert f"{count} of 2 models" in text(browser.get(PAGE, {"find": find})), find
    shown = text(browser.get(PAGE, {"find": "<zebra>"}))
    assert "No model, fabric, agent or endpoint has “<zebra>” in its name." in shown
    assert "0 of 2 models" in shown
