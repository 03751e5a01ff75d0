"""The page that sends one prompt to a drafted agent: its form, the answer, and the number a minute."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from fabric.core.people.actor import Actor
from fabric.services.drafts.changes import draft_begin
from simulator.endpoint import ScriptedEndpoint, answer, refusal

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/fabrics/bills/draft/agents/clerk"
GOOD = json.dumps({"text": "Seven <b>.", "citations": []})


@pytest.fixture
def endpoint(settings: Any) -> Iterator[ScriptedEndpoint]:
    script = [answer(GOOD, usage=(30, 12)), answer("Seven.", usage=(30, 2)), refusal(401, "bad key")]
    with ScriptedEndpoint(script) as found:
        settings.FABRIC_ALLOWED_HOSTS = (found.authority,)
        settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = found.url, "small", "sk-own"
        yield found


def begun(actor: Actor, **model: Any) -> None:
    price = {"input_usd_per_mtok": 10, "output_usd_per_mtok": 10}
    models = [{"name": "main", "model": "small", "price": price, **model}]
    agents = [{"name": "clerk", "model": "main", "instructions": "Read bills.", "tools": ["pay"]}]
    tree = {"name": "bills", "models": models, "agents": agents, "topology": {"workers": ["clerk"], "critic": "clerk"}}
    draft_begin(actor=actor, name="bills", text=json.dumps(tree))


def sent(browser: Client, **more: str) -> str:
    return browser.post(PAGE, {"prompt": "What is owed?", "role": "worker", **more}).content.decode()


def test_an_answer_is_shown_with_its_cost_tokens_time_and_fit(
    browser: Client, actor: Actor, endpoint: ScriptedEndpoint
) -> None:
    begun(actor)
    assert f'href="{PAGE}"' in browser.get("/fabrics/bills/draft?part=agents").content.decode()
    page = browser.get(PAGE).content.decode()
    assert "No tool is called." in page
    assert "at most $0.25" in page
    assert '<option value="critic"' in page
    assert not endpoint.received
    page = sent(browser)
    assert "Seven &lt;b&gt;." in page
    assert "Fits the schema" in page
    assert "$0.00042" in page
    assert "30 in, 12 out" in page
    assert "1 prompt to agents" in page
    page = sent(browser)
    assert "Does not fit" in page
    assert "A run would refuse this answer" in page
    page = sent(browser)
    assert "No answer" in page
    assert "refused the key (HTTP 401)" in page


def test_what_is_refused_keeps_the_prompt(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor)
    response = browser.post(PAGE, {"prompt": "What is owed?", "role": "king"})
    assert response.status_code == 422
    assert "The agent has no role" in response.content.decode()
    assert "What is owed?" in response.content.decode()
    assert browser.post(PAGE, {"prompt": ""}).status_code == 422
    assert not endpoint.received


def test_a_model_without_a_price_has_no_form(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor, price=None)
    page = browser.get(PAGE).content.decode()
    assert "has no price, so nothing bounds its cost: give it a price in the draft." in page
    assert 'id="send"' not in page


def test_more_prompts_than_a_minute_has_are_refused(
    browser: Client, actor: Actor, endpoint: ScriptedEndpoint, settings: Any
) -> None:
    settings.FABRIC_MODEL_TESTS_PER_MINUTE = 1
    begun(actor)
    sent(browser)
    response = browser.post(PAGE, {"prompt": "Again?"})
    assert (response.status_code, int(response.headers["Retry-After"]) > 0) == (429, True)
    assert "More than 1 prompts within a minute" in response.content.decode()
    assert len(endpoint.received) == 1


def test_an_agent_that_is_gone_is_told(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor)
    assert browser.get("/fabrics/bills/draft/agents/ghost").status_code == 404
