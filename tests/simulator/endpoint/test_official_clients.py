"""The official clients of the four protocols against the endpoint: what is well formed parses, and what is odd has a known outcome."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from simulator.endpoint import ScriptedEndpoint
from simulator.endpoint.behaviour import misbehaviour
from simulator.endpoint.behaviour.definition import EVERY
from simulator.endpoint.player import PLAYS, Playing, behaviour_named
from simulator.endpoint.quirks import calls, refusals, streams
from tests.simulator.endpoint.asking import playing
from tests.simulator.endpoint.client_outcomes import ODD, ONE
from tests.simulator.endpoint.official_clients import ASK, KEY, QUESTION, outcome, switched
from tests.simulator.endpoint.test_openai_client import MEANS
from tests.simulator.endpoint.test_strict import PATHS

WELL_FORMED = {*misbehaviour.BEHAVIOURS, *refusals.BEHAVIOURS}
"""A model that misbehaves, and an endpoint that refuses, do it in the protocol's form."""
TOLD = {name: one for name, one in PLAYS.items() if name not in {*MEANS, *WELL_FORMED}}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
PROTOCOLS = pytest.mark.parametrize("protocol", EVERY)


def test_each_odd_outcome_is_one_of_a_fault():
    assert set(ODD) <= set(TOLD)


@PROTOCOLS
@BOTH
def test_what_a_client_makes_of_each(protocol, stream):
    found, wanted = {}, {}
    with switched() as (endpoint, play):
        for name, scenario in TOLD.items():
            if protocol not in scenario.protocols:
                continue
            play(playing(name))
            found[name] = outcome(protocol, endpoint.url, stream=stream)
            odd = ODD.get(name, {})
            wanted[name] = odd.get(protocol, odd.get("*", (ONE, ONE)))[stream]
    assert {name: one for name, one in found.items() if one != wanted[name]} == {}


@PROTOCOLS
@BOTH
@pytest.mark.parametrize("scenario", ["cooperative", "strict", "reasoning"])
def test_what_is_well_formed_parses(protocol, stream, scenario):
    with ScriptedEndpoint(playing(scenario)) as endpoint:
        said = ASK[protocol](endpoint.url, stream=stream)
    assert {tool for tool, _ in said.calls} == {"look"}
    assert all(set(args) == {"q"} for _, args in said.calls)
    assert said.text == ""


@PROTOCOLS
@BOTH
def test_big_integers_arrive_as_they_are(protocol, stream):
    with ScriptedEndpoint(playing("big_integers")) as endpoint:
        [(_, args)] = ASK[protocol](endpoint.url, stream=stream).calls
    assert args["limit"] == calls.BIG[0]


STATUSES = {name: int(name.removeprefix("status_")[:3]) for name in refusals.BEHAVIOURS if name.startswith("status_")}
OWN_FORM = ("limit_", "quota_", "error_", "status_502", "status_503_page", "status_500_empty", "status_429_page")
"""Refusals whose body is the same whatever is spoken."""


def body_of(protocol: str, *, stream: bool = False) -> dict[str, Any]:
    if protocol == "google":
        return {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
    if protocol == "responses":
        return {"model": "m", "input": QUESTION, "stream": stream}
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": QUESTION}], "stream": stream}


def path_of(protocol: str, *, stream: bool = False) -> str:
    if protocol == "google" and stream:
        return "/v1beta/models/m:streamGenerateContent?alt=sse"
    return PATHS[protocol]


@PROTOCOLS
@BOTH
def test_each_refusal_has_its_status_and_the_form_of_its_protocol(protocol, stream):
    with switched() as (endpoint, play), httpx2.Client(timeout=60) as asking:
        url = f"http://{endpoint.authority}{path_of(protocol, stream=stream)}"
        for name in refusals.BEHAVIOURS:
            play(playing(name))
            answer = asking.post(url, json=body_of(protocol, stream=stream))
            assert answer.status_code == STATUSES.get(name, answer.status_code), name
            assert (answer.status_code == 200) == name.endswith("in_200"), name
            if answer.status_code == 429 and name.startswith("retry_after"):
                assert "retry-after" in answer.headers or "retry-after-ms" in answer.headers
            if name.startswith(OWN_FORM) and name != "limit_as_server_error":
                continue
            error = answer.json()["error"]
            assert error["message"], name
            if protocol == "anthropic":
                assert answer.json()["type"] == "error", name
            elif protocol == "google":
                assert (error["code"], error["status"].isupper()) == (answer.status_code, True), name
            else:
                assert {"type", "code"} <= set(error), name


TEXT_EVENTS = {
    "chat": lambda one: one["choices"] and one["choices"][0]["delta"].get("content"),
    "responses": lambda one: one["type"] == "response.output_text.delta" and one["delta"],
    "anthropic": lambda one: one["type"] == "content_block_delta" and one["delta"]["text"],
    "google": lambda one: one["candidates"][0]["content"]["parts"][0]["text"],
}


def events(text: str) -> list[Any]:
    found = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(one) for one in found if one != "[DONE]"]


@PROTOCOLS
def test_many_chunks_are_ten_thousand(protocol):
    with ScriptedEndpoint(playing("many_chunks")) as endpoint:
        url = f"http://{endpoint.authority}{path_of(protocol, stream=True)}"
        answer = httpx2.post(url, json=body_of(protocol, stream=True), timeout=60)
    found = [said for one in events(answer.text) if (said := TEXT_EVENTS[protocol](one))]
    assert (len(found), "".join(found)) == (streams.MANY, "ab " * streams.MANY)


@PROTOCOLS
def test_a_stream_ends_in_each_place(protocol):
    """Every count of events up to the whole."""
    with switched() as (endpoint, play), httpx2.Client(timeout=60) as asking:
        url = f"http://{endpoint.authority}{path_of(protocol, stream=True)}"
        play(playing("cooperative"))
        whole = asking.post(url, json=body_of(protocol, stream=True)).text.split("\n\n")[:-1]
        for count in range(len(whole) + 1):
            scenario = behaviour_named(f"cut_after={count}")
            assert scenario is not None
            play(Playing(scenario).reply)
            cut = asking.post(url, json=body_of(protocol, stream=True)).text.split("\n\n")[:-1]
            assert len(cut) == count


@PROTOCOLS
def test_models_are_listed_by_each_client(protocol):
    import anthropic
    import openai
    from google import genai

    with ScriptedEndpoint(playing("unavailable")) as endpoint:
        base = endpoint.url.removesuffix("/v1")
        if protocol == "anthropic":
            found = [one.id for one in anthropic.Anthropic(base_url=base, api_key=KEY).models.list()]
        elif protocol == "google":
            client = genai.Client(api_key=KEY, http_options={"base_url": base})
            found = [one.name for one in client.models.list()]
        else:
            found = [one.id for one in openai.OpenAI(base_url=endpoint.url, api_key=KEY).models.list()]
    assert found == (["models/scripted"] if protocol == "google" else ["scripted"])


def test_without_server_sent_events_google_streams_a_list():
    with ScriptedEndpoint(playing("cooperative")) as endpoint:
        url = f"http://{endpoint.authority}/v1beta/models/m:streamGenerateContent"
        found = httpx2.post(url, json=body_of("google"), timeout=60).json()
    said = "".join(one["candidates"][0]["content"]["parts"][0]["text"] for one in found)
    assert said == f"This was asked: {QUESTION}"
