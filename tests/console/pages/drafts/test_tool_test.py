"""The page of a test request: a form of the tool's arguments, and the answer to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from fabric.core.people.actor import Actor
from fabric.services.drafts.changes import draft_begin
from simulator.endpoint import ScriptedEndpoint, Step, refusal

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/fabrics/small/draft/tools/find"
FOUND = Step(body=b'{"name": "Ana <b>"}', content_type="application/json")


@pytest.fixture
def endpoint(settings: Any) -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint([FOUND, refusal(404, "no such customer")]) as found:
        settings.FABRIC_ALLOWED_HOSTS = (found.authority,)
        yield found


def begun(actor: Actor, endpoint: ScriptedEndpoint, **fields: Any) -> None:
    properties = {"id": {"type": "integer", "description": "Number of the customer."}, "note": {"type": "string"}}
    tool = {
        "name": "find",
        "kind": "http",
        "target": f"http://{endpoint.authority}/find",
        "description": "Finds.",
        "parameters": {"type": "object", "properties": properties, "required": ["id"]},
        **fields,
    }
    draft_begin(actor=actor, name="small", text=f"name: small\ntools: {json.dumps([tool])}\n")


def test_arguments_are_fields_and_the_answer_is_shown(
    browser: Client, actor: Actor, endpoint: ScriptedEndpoint
) -> None:
    begun(actor, endpoint)
    page = browser.get(PAGE).content.decode()
    assert 'name="f.id"' in page
    assert "Number of the customer." in page
    assert not endpoint.received
    assert f'href="{PAGE}"' in browser.get("/fabrics/small/draft?part=tools").content.decode()
    answer = browser.post(PAGE, {"typed": "[{}, []]", "f.id": "7"})
    page = answer.content.decode()
    assert endpoint.received[0].body == {"id": 7}
    assert answer.status_code == 200
    assert "HTTP 200" in page
    assert "Ana &lt;b&gt;" in page
    assert "Answered" in page
    assert "was not given" not in page
    page = browser.post(PAGE, {"typed": "[{}, []]", "f.id": "8"}).content.decode()
    assert "HTTP 404" in page
    assert "The agent gets no result" in page
    assert 'value="8"' in page


def test_what_is_no_argument_is_refused_at_its_field(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor, endpoint)
    answer = browser.post(PAGE, {"typed": "[{}, []]", "f.id": "seven"})
    assert answer.status_code == 422
    assert "Give a whole number, such as 12." in answer.content.decode()
    assert not endpoint.received


def test_a_tool_without_named_parameters_takes_json(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor, endpoint, parameters={"type": "object"})
    assert 'id="arguments"' in browser.get(PAGE).content.decode()
    assert browser.post(PAGE, {"arguments": "[1]"}).status_code == 422
    assert browser.post(PAGE, {"arguments": '{"any": [1]}'}).status_code == 200
    assert endpoint.received[0].body == {"any": [1]}


def test_a_changing_tool_warns_and_wants_a_tick(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor, endpoint, effect="mutating")
    assert "the request really happens" in browser.get(PAGE).content.decode()
    answer = browser.post(PAGE, {"typed": "[{}, []]", "f.id": "7"})
    assert answer.status_code == 422
    assert "really changes something: tick that you want it." in answer.content.decode()
    assert not endpoint.received
    assert browser.post(PAGE, {"typed": "[{}, []]", "f.id": "7", "agreed": "1"}).status_code == 200


def test_an_irreversible_tool_has_no_form(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor, endpoint, effect="irreversible")
    page = browser.get(PAGE).content.decode()
    assert "is irreversible: each call needs a review, so try it in a run." in page
    assert 'id="send"' not in page


def test_a_tool_that_is_gone_is_told(browser: Client, actor: Actor, endpoint: ScriptedEndpoint) -> None:
    begun(actor, endpoint)
    assert browser.get("/fabrics/small/draft/tools/ghost").status_code == 404
