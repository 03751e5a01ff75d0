"""Test requests of a draft's HTTP tools: sent as runs send them, and refused where runs would ask or count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fabric.core.people.actor import Actor
from fabric.models import AuditLine
from fabric.secrets.known_secrets import MASK
from fabric.services.actors import find_actor
from fabric.services.drafts import tool_tests
from fabric.services.drafts.changes import draft_begin
from fabric.services.drafts.tool_tests import BODY_CHARS, tool_test
from fabric.services.errors import Refused
from fabric.services.workspaces.policies import policy_set
from simulator.endpoint import ScriptedEndpoint, Step, drop, refusal
from tests.people import member

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "a-token-of-the-crm-that-is-secret"


def answer(body: Any, **more: Any) -> Step:
    return Step(body=json.dumps(body).encode(), content_type="application/json", **more)


class Listed(ScriptedEndpoint):
    """Answers with the steps of a list, one after another."""

    def __init__(self) -> None:
        super().__init__(lambda received: self.script.pop(0))
        self.script: list[Step] = []


@pytest.fixture
def endpoint(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listed]:
    with Listed() as found:
        settings.FABRIC_ALLOWED_HOSTS = (found.authority,)
        settings.FABRIC_TOOL_VARIABLES = (f"CRM_TOKEN@{found.authority}",)
        monkeypatch.setenv("CRM_TOKEN", SECRET)
        yield found


def begun(actor: Actor, endpoint: Listed, **fields: Any) -> None:
    tool = {
        "name": "find",
        "kind": "http",
        "method": "GET",
        "target": f"http://{endpoint.authority}/customers/{{id}}",
        "description": "Finds.",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "places": {"id": "path"},
        "headers_from": {"Authorization": "CRM_TOKEN"},
        **fields,
    }
    draft_begin(actor=actor, name="small", text=f"name: small\ntools: {json.dumps([tool])}\n")


def sent(actor: Actor, args: Any = None, **more: Any) -> tool_tests.ToolTestResult:
    return tool_test(actor=actor, fabric="small", name="find", args={"id": "7"} if args is None else args, **more)


def test_it_goes_out_as_a_run_sends_it_and_its_answer_is_masked(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer({"name": "Ana", "echo": SECRET}, headers={"X-Request-Id": "r-1", "X-Other": "no"})]
    begun(actor, endpoint)
    found = sent(actor)
    (received,) = endpoint.received
    assert (received.method, received.path) == ("GET", "/customers/7")
    assert received.headers["authorization"] == SECRET
    assert (found.status, found.problem) == (200, "")
    assert found.result == {"name": "Ana", "echo": MASK}
    assert SECRET not in found.body
    assert dict(found.headers)["x-request-id"] == "r-1"
    assert "x-other" not in dict(found.headers)
    line = AuditLine.objects.get(kind="tool_tested")
    assert (line.subject, line.actor, json.loads(bytes(line.body))["tool"]) == ("small", "owner", "find")


def test_a_long_body_is_cut(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer("x" * 9_000)]
    begun(actor, endpoint)
    found = sent(actor)
    assert (len(found.body), found.body_chars) == (BODY_CHARS, 9_002)


@pytest.mark.parametrize(
    ("step", "status", "said"),
    [
        (refusal(404, "no such customer"), 404, "answered HTTP 404; it says:"),
        (refusal(503, "busy"), 503, "answered HTTP 503"),
        (Step(body=b"{", content_type="application/json"), 200, "JSON"),
        (drop(), 200, "broke off after"),
    ],
)
def test_a_failure_says_what_the_agent_would_read(
    actor: Actor, endpoint: Listed, step: Step, status: int, said: str
) -> None:
    endpoint.script = [step]
    begun(actor, endpoint)
    found = sent(actor)
    assert found.status == status
    assert found.problem
    assert said in found.problem


def test_arguments_that_do_not_fit_are_told_and_nothing_is_sent(actor: Actor, endpoint: Listed) -> None:
    begun(actor, endpoint)
    assert "the arguments do not fit" in sent(actor, {}).problem
    assert not endpoint.received


def test_addresses_that_runs_may_not_call_are_refused(actor: Actor, endpoint: Listed, settings: Any) -> None:
    settings.FABRIC_ALLOWED_HOSTS = ()
    begun(actor, endpoint, headers_from={})
    found = sent(actor)
    assert found.status is None
    assert "FABRIC_ALLOWED_HOSTS" in found.problem
    assert not endpoint.received


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"effect": "irreversible"}, "is irreversible: each call needs a review"),
        ({"usd_per_call": "0.01"}, "costs money for each call, which only the budget of a run counts"),
        ({"kind": "mcp", "target": "crm/find"}, "only HTTP tools have test requests"),
        ({"effect": "mutating"}, "is mutating, so the request really changes something"),
        ({"timeout_s": "soon"}, "has errors: fix them in the draft"),
    ],
)
def test_what_only_a_run_may_call_is_refused(actor: Actor, endpoint: Listed, fields: dict[str, Any], said: str) -> None:
    begun(actor, endpoint, **fields)
    with pytest.raises(Refused, match=said):
        sent(actor)
    assert not endpoint.received
    assert not AuditLine.objects.filter(kind="tool_tested").exists()


def test_a_changing_tool_is_called_once_its_author_agrees(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer({})]
    begun(actor, endpoint, effect="mutating")
    assert sent(actor, agreed=True).problem == ""
    assert len(endpoint.received) == 1


@pytest.mark.parametrize("rule", [{"hosts": ("other.example",)}, {"tools": ("http:other.example",)}])
def test_the_policy_of_the_workspace_holds(actor: Actor, endpoint: Listed, rule: dict[str, Any]) -> None:
    begun(actor, endpoint)
    policy_set(actor=actor, policy=rule, expect=0)
    with pytest.raises(Refused, match="the workspace's policy allows"):
        sent(actor)
    assert not endpoint.received


def test_only_who_may_edit_sends_one(actor: Actor, endpoint: Listed) -> None:
    begun(actor, endpoint)
    with pytest.raises(Refused) as refused:
        sent(find_actor(member("vera", "viewer")))
    assert refused.value.code == "forbidden"
    assert not endpoint.received


def test_more_than_a_few_at_once_wait(actor: Actor, endpoint: Listed) -> None:
    begun(actor, endpoint)
    taken = [tool_tests._slots.acquire(blocking=False) for _ in range(tool_tests.AT_ONCE_MAX)]
    try:
        assert all(taken)
        with pytest.raises(Refused, match="test requests are under way"):
            sent(actor)
    finally:
        for _ in taken:
            tool_tests._slots.release()
