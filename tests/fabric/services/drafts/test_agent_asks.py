"""Prompts by hand to drafted agents, over real HTTP: what is sent, what came of it, what it costs, and who may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fabric.composition.models import ask_once, provider_names
from fabric.core.people.actor import Actor
from fabric.core.values.cost import Price
from fabric.models import AuditLine, SharedBudget
from fabric.services.actors import find_actor
from fabric.services.drafts import agent_asks
from fabric.services.drafts.agent_asks import AgentReply, agent_ask, asked_sum
from fabric.services.drafts.changes import draft_begin
from fabric.services.errors import Refused
from fabric.services.workspaces.policies import policy_set
from simulator.endpoint import ScriptedEndpoint, Step, answer, drop, hang, html, refusal
from tests.people import member

pytestmark = pytest.mark.django_db(transaction=True)
PRICE = Price(150_000, 600_000)
PRICED = {"input_usd_per_mtok": 0.15, "output_usd_per_mtok": 0.60}
SCHEMA = {
    "type": "object",
    "properties": {"usd": {"type": "integer", "minimum": 0}},
    "required": ["usd"],
    "additionalProperties": False,
}
GOOD = json.dumps({"text": "Owed.", "citations": [], "data": {"usd": 7}})


class Listed(ScriptedEndpoint):
    """Answers with the steps of a list, one after another."""

    def __init__(self) -> None:
        super().__init__(lambda received: self.script.pop(0))
        self.script: list[Step] = []


@pytest.fixture
def endpoint(settings: Any) -> Iterator[Listed]:
    with Listed() as found:
        settings.FABRIC_ALLOWED_HOSTS = (found.authority,)
        settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = found.url, "small", "sk-own"
        yield found


def begun(actor: Actor, model: dict[str, Any] | None = None, **fields: Any) -> None:
    models = [{"name": "main", "model": "small", "price": PRICED, "options": {"temperature": 0.2}, **(model or {})}]
    agent = {
        "name": "clerk",
        "model": "main",
        "instructions": "Read bills.",
        "tools": ["pay"],
        "output_schema": SCHEMA,
        **fields,
    }
    topology = {"workers": ["clerk"], "planner": "clerk"}
    tree = {"name": "bills", "models": models, "agents": [agent], "topology": topology, "policy": {"unfinished": 1}}
    draft_begin(actor=actor, name="bills", text=json.dumps({key: one for key, one in tree.items() if one is not None}))


def asked(actor: Actor, prompt: str = "What is owed?", **more: Any) -> AgentReply:
    given = {"role": "worker", "providers": provider_names(), "ask": ask_once, **more}
    return agent_ask(actor=actor, fabric="bills", name="clerk", prompt=prompt, **given)


def lines() -> list[tuple[str, dict[str, Any]]]:
    rows = AuditLine.objects.filter(kind__in=("agent_asked", "agent_answered")).order_by("at", "id")
    return [(row.kind, json.loads(bytes(row.body))) for row in rows]


def test_it_goes_out_as_a_run_sends_it_without_tools(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer(GOOD, usage=(30, 12))]
    begun(actor)
    found = asked(actor)
    body = endpoint.received[0].body
    assert "tools" not in body
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("small", 0.2, 1_024)
    assert body["messages"][0]["content"].startswith("You are clerk. Read bills.")
    assert json.dumps(SCHEMA, separators=(",", ":")) in body["messages"][0]["content"]
    assert body["messages"][1]["content"] == "What is owed?"
    assert body["response_format"]["type"] == "json_schema"
    assert (found.text, found.problem, found.misfits) == (GOOD, "", ())
    assert (found.input_tokens, found.output_tokens, found.usd_micros) == (30, 12, PRICE.cost(30, 12))


def test_its_cost_is_in_the_audit_trail_and_its_contents_are_not(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer(GOOD, usage=(30, 12))]
    begun(actor)
    asked(actor)
    (first, largest), (second, real) = lines()
    assert (first, second) == ("agent_asked", "agent_answered")
    assert largest["ask"] == real["ask"]
    assert (largest["agent"], largest["model"]) == ("clerk", "small")
    assert (real["cost_usd_micros"], real["input_tokens"], real["output_tokens"]) == (PRICE.cost(30, 12), 30, 12)
    assert largest["reserved_usd_micros"] >= real["cost_usd_micros"]
    assert "owed" not in json.dumps([largest, real]).lower()
    assert (asked_sum(actor, "bills").prompts, asked_sum(actor, "bills").usd_micros) == (1, PRICE.cost(30, 12))


def test_a_prompt_whose_server_dies_counts_at_its_largest_cost(actor: Actor, endpoint: Listed) -> None:
    begun(actor)

    def dies(_request: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(actor, ask=dies)
    ((_, largest),) = lines()
    assert asked_sum(actor, "bills").usd_micros == largest["reserved_usd_micros"] > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is seven.", "no JSON"),
        ('{"text": "Owed.", "citations": []}', "data is missing"),
        ('{"text": "Owed.", "citations": [], "data": {"usd": -1}}', "data.usd"),
        ('{"text": "Owed.", "citations": [], "data": {"eur": 1}}', "data"),
        ("", "the answer is empty"),
    ],
)
def test_an_answer_that_does_not_fit_says_where(actor: Actor, endpoint: Listed, text: str, said: str) -> None:
    endpoint.script = [answer(text, usage=(30, 12))]
    begun(actor)
    found = asked(actor)
    assert found.problem == ""
    assert any(said in one for one in found.misfits), found.misfits
    assert found.usd_micros == PRICE.cost(30, 12)


def test_an_answer_that_was_cut_off_is_told(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer('{"text": "Ow', usage=(30, 1_024), finish="length")]
    begun(actor)
    assert "was cut at 1,024 tokens" in asked(actor).misfits[0]


def test_a_planner_is_asked_for_a_plan(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer(GOOD, usage=(30, 12))]
    begun(actor)
    found = asked(actor, role="planner")
    assert '"exit_criteria"' in endpoint.received[0].body["messages"][0]["content"]
    assert any("exit_criteria" in one for one in found.misfits)


def test_prose_has_no_schema_to_fit(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer("It is seven.", usage=(30, 12))]
    begun(actor, answers="text", output_schema=None)
    assert asked(actor).misfits == ()
    assert "response_format" not in endpoint.received[0].body


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (refusal(401, "bad key"), "refused the key (HTTP 401)"),
        (refusal(429, "slow down"), "asks for fewer requests (HTTP 429)"),
        (refusal(503, "busy"), "failed on its side (HTTP 503)"),
        (html(), "with a web page instead of JSON"),
        (drop(), "broke off after"),
        (hang(), "no answer had begun"),
    ],
)
def test_a_failure_is_one_sentence_and_its_cost_is_known(
    actor: Actor, endpoint: Listed, monkeypatch: pytest.MonkeyPatch, step: Step, said: str
) -> None:
    monkeypatch.setattr(agent_asks, "WITHIN_S", 1.0)
    endpoint.script = [step]
    begun(actor)
    found = asked(actor)
    assert said in found.problem
    assert found.text == ""
    assert len(endpoint.received) == 1, "a failure is not sent again"
    (_, largest), (_, real) = lines()
    assert real["cost_usd_micros"] in (0, largest["reserved_usd_micros"])
    assert real["cause"]


def test_a_missing_key_is_told(actor: Actor, endpoint: Listed, settings: Any) -> None:
    settings.FABRIC_MODEL_KEY = ""
    settings.FABRIC_MODEL_URL = "https://models.example.org/v1"
    begun(actor)
    assert "FABRIC_MODEL_KEY" in asked(actor).problem
    assert lines()[1][1]["cost_usd_micros"] == 0


def test_a_scripted_model_answers(actor: Actor) -> None:
    begun(actor, model={"provider": "scripted", "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}})
    found = asked(actor)
    assert (found.problem, found.misfits, found.usd_micros) == ("", (), 0)


@pytest.mark.parametrize(
    ("model", "fields", "more", "said"),
    [
        ({"price": None}, {}, {}, "has no price, so nothing bounds its cost"),
        ({"provider": "drill"}, {}, {}, "names provider 'drill', which is not installed here"),
        ({"temperature": 1}, {}, {}, "model 'main' has errors: fix them in the draft"),
        ({}, {"max_output_tokens": "many"}, {}, "agent 'clerk' has errors: fix them in the draft"),
        ({"name": "other"}, {}, {}, "the draft has no model 'main'"),
        ({}, {"output_schema": {"type": "nothing"}}, {}, "agent 'clerk': the schema does not compile"),
        ({}, {}, {"prompt": "  "}, "the prompt is empty"),
        ({}, {}, {"prompt": "x" * 20_001}, "the prompt has 20,001 characters, and 20,000 are the most"),
        ({}, {}, {"role": "king"}, "the agent has no role 'king'"),
        (
            {"price": {"input_usd_per_mtok": 20, "output_usd_per_mtok": 60}},
            {"max_output_tokens": 5_000},
            {},
            "one prompt by hand may cost \\$0.25: shorten the prompt",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(
    actor: Actor, endpoint: Listed, model: dict[str, Any], fields: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    begun(actor, model, **fields)
    with pytest.raises(Refused, match=said):
        asked(actor, **more)
    assert not endpoint.received
    assert not lines()


def test_the_cap_of_a_key_reserves_and_settles(actor: Actor, endpoint: Listed, settings: Any) -> None:
    endpoint.script = [answer(GOOD, usage=(30, 12))]
    at = f"http://{endpoint.authority}"
    settings.FABRIC_KEY_CAPS = ((at, "day", 2_000),)
    begun(actor)
    asked(actor)
    assert SharedBudget.objects.get().spent == PRICE.cost(30, 12)


def test_a_prompt_beyond_the_cap_of_a_key_is_not_sent(actor: Actor, endpoint: Listed, settings: Any) -> None:
    settings.FABRIC_KEY_CAPS = ((f"http://{endpoint.authority}", "day", 10),)
    begun(actor)
    with pytest.raises(Refused, match="the cap of the keys at"):
        asked(actor)
    assert not endpoint.received
    assert not lines()


def test_the_policy_of_the_workspace_holds(actor: Actor, endpoint: Listed) -> None:
    begun(actor, model={"base_url": endpoint.url})
    policy_set(actor=actor, policy={"hosts": ("other.example",)}, expect=0)
    with pytest.raises(Refused, match="the workspace's policy allows"):
        asked(actor)
    assert not endpoint.received


def test_only_who_may_edit_sends_one(actor: Actor, endpoint: Listed) -> None:
    begun(actor)
    with pytest.raises(Refused) as refused:
        asked(find_actor(member("vera", "viewer")))
    assert refused.value.code == "forbidden"


def test_more_than_a_few_at_once_wait(actor: Actor, endpoint: Listed) -> None:
    begun(actor)
    taken = [agent_asks._slots.acquire(blocking=False) for _ in range(agent_asks.AT_ONCE_MAX)]
    try:
        assert all(taken)
        with pytest.raises(Refused, match="prompts are under way"):
            asked(actor)
    finally:
        for _ in taken:
            agent_asks._slots.release()
    assert not lines()


def test_thinking_before_an_answer_is_no_part_of_it(actor: Actor, endpoint: Listed) -> None:
    endpoint.script = [answer(f"<think>Hm.</think>{GOOD}", usage=(30, 12))]
    begun(actor)
    assert asked(actor).misfits == ()
