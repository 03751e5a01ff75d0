"""The official client meets each scenario, with and without streaming, as an exception of its own, an answer, or nothing for ever."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import openai
import pytest

from simulator.endpoint import ScriptedEndpoint, trickle
from simulator.endpoint.behaviour.misbehaviour import FAKE_KEY, FLOOD, NOWHERE, SPIKE
from simulator.endpoint.player import PLAYS
from tests.simulator.endpoint.asking import (
    LOOK,
    QUESTION,
    TO_B,
    Heard,
    client,
    hear,
    playing,
)

SHORT_S = 0.3
"""What a client waits for one that says nothing."""
NEVER_S = 1.0
"""What a client waits for the next byte, where bytes come all the time; nothing has come of it after twice as long."""


@dataclass(frozen=True)
class Means:
    """The outcome of a scenario. ``raises``: what the client raises, with this in its message; ``finish``: else how it says the answer ended."""

    raises: type[Exception] | None = None
    words: str = ""
    finish: str | None = None
    calls: int = 0
    text: str | None = None
    """The text is that; None: any."""
    timeout_s: float = 60.0
    never: bool = False


def both(found: Means) -> tuple[Means, Means]:
    return found, found


def refused(kind: type[Exception], words: str) -> tuple[Means, Means]:
    return both(Means(kind, words))


SILENT = both(Means(openai.APITimeoutError, "timed out", timeout_s=SHORT_S))
BROKEN = both(Means(openai.APIConnectionError, "Connection error"))
CALLS = both(Means(finish="tool_calls", calls=1))
SAYS = both(Means(finish="stop"))
MEANS: dict[str, tuple[Means, Means]] = {
    "cooperative": CALLS,
    "echo": both(Means(finish="stop", text=QUESTION)),
    "retry_after": refused(openai.RateLimitError, "slow down"),
    "rate_limit": refused(openai.RateLimitError, "slow down"),
    "quota": refused(openai.RateLimitError, "exceeded your current quota"),
    "unavailable": refused(openai.InternalServerError, "503"),
    "outage": refused(openai.InternalServerError, "503"),
    "flaky": refused(openai.InternalServerError, "503"),
    "bad_key": refused(openai.AuthenticationError, "Incorrect API key"),
    "unknown_model": refused(openai.NotFoundError, "does not exist"),
    "not_found": refused(openai.NotFoundError, "Not Found"),
    "no_schema": refused(openai.BadRequestError, "response_format"),
    "context_length": refused(openai.BadRequestError, "too long"),
    "slow": SILENT,
    "hang": SILENT,
    "trickle": both(Means(timeout_s=NEVER_S, never=True)),
    "stall": SILENT,
    "dropped_stream": BROKEN,
    "hang_up": BROKEN,
    "cut_stream": (BROKEN[0], Means(finish=None, text="this sentence is never f")),
    "doubled_chunk": CALLS,
    "html": (Means(finish=None), Means(finish=None, text="")),
    "nothing": (Means(json.JSONDecodeError, "Expecting value"), Means(finish=None, text="")),
    "cut_json": both(Means(json.JSONDecodeError, "Unterminated string")),
    "error_body": (Means(finish=None), Means(openai.APIError, "overloaded")),
    "unfit_text": both(Means(finish="stop", text="a\0b\ud800c\U0001f600")),
    "empty": both(Means(finish="stop", text="")),
    "off_schema": SAYS,
    "malformed": both(Means(finish="stop", text='{"text": "' + QUESTION)),
    "credential": both(Means(finish="stop", text=f"The access key is {FAKE_KEY}.")),
    "ungrounded": both(Means(finish="stop", text=f"It is so. [{NOWHERE}]")),
    "unsure": SAYS,
    "bad_plan": SAYS,
    "supervisor_stuck": CALLS,
    "tool_loop": CALLS,
    "tool_loop_paraphrased": CALLS,
    "tool_loop_of_2": CALLS,
    "tool_loop_of_3": CALLS,
    "tool_loop_changing": CALLS,
    "unknown_tool": CALLS,
    "bad_arguments": CALLS,
    "flood": both(Means(finish="tool_calls", calls=FLOOD)),
    "cost_spike_tokens": CALLS,
    "spender": CALLS,
    "spender_slow": CALLS,
    "spawning": CALLS,
    "handoff_cycle": CALLS,
    "handoff_cycle_of_3": CALLS,
}
"""Without streaming, and with it. Total over the scenarios."""
FLAKY_SEED = 1
"""Its first request is refused with 503."""


def test_each_scenario_means_something():
    assert set(MEANS) <= set(PLAYS)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", MEANS)
def test_what_the_client_makes_of_it(name, stream):
    means = MEANS[name][stream]
    heard = Heard()

    async def ask(url: str) -> Heard:
        async with client(url, means.timeout_s) as made:
            return await hear(made, stream=stream, heard=heard, tools=[LOOK, TO_B])

    with ScriptedEndpoint(playing(name, seed=FLAKY_SEED)) as endpoint:
        if means.never:
            with pytest.raises(TimeoutError):
                asyncio.run(asyncio.wait_for(ask(endpoint.url), 2 * NEVER_S))
        elif means.raises is not None:
            with pytest.raises(means.raises, match=means.words) as caught:
                asyncio.run(ask(endpoint.url))
            assert caught.type is means.raises
        else:
            asyncio.run(ask(endpoint.url))
            assert (heard.finish, len(heard.calls)) == (means.finish, means.calls)
            assert means.text in (None, heard.text)
        assert len(endpoint.received) == 1, "no call was repeated"


def test_a_trickle_is_one_of_blanks_without_end():
    """Chunk after chunk, none of which says anything."""

    async def ask(url: str) -> list[str]:
        texts: list[str] = []
        async with client(url) as made:
            messages: Any = [{"role": "user", "content": QUESTION}]
            async with await made.chat.completions.create(model="m", messages=messages, stream=True) as chunks:
                async for chunk in chunks:
                    texts.append(chunk.choices[0].delta.content or "")
                    if len(texts) == 20:
                        break
        return texts

    with ScriptedEndpoint([trickle(every_s=0.001)]) as endpoint:
        assert asyncio.run(ask(endpoint.url)) == [" "] * 20


def ask_once(name: str, *, stream: bool = False, over: dict[str, Any] | None = None, **request: Any) -> Heard:
    async def ask(url: str) -> Heard:
        async with client(url) as made:
            return await hear(made, stream=stream, **request)

    with ScriptedEndpoint(playing(name, **(over or {}))) as endpoint:
        return asyncio.run(ask(endpoint.url))


@pytest.mark.parametrize("name", ["stall", "dropped_stream"])
def test_half_of_a_stream_comes_before_it_breaks(name):
    heard = Heard()

    async def ask(url: str) -> None:
        async with client(url, 2.0) as made:
            await hear(made, stream=True, heard=heard)

    with ScriptedEndpoint(playing(name)) as endpoint, pytest.raises(openai.APIConnectionError):
        asyncio.run(ask(endpoint.url))
    assert heard.text == "this sentence is never f"


@pytest.mark.parametrize("request_", [{}, {"tools": [LOOK]}], ids=["text", "calls"])
def test_one_chunk_comes_twice(request_):
    once = ask_once("cooperative", stream=True, **request_)
    twice = ask_once("doubled_chunk", stream=True, **request_)
    assert twice.chunks == once.chunks + 1
    before, after = (one.calls[0][1] if one.calls else one.text for one in (once, twice))
    assert after != before
    assert after == before[:12] + before


@pytest.mark.parametrize("stream", [False, True])
def test_a_late_answer_comes_in_the_end(stream):
    assert ask_once("slow", stream=stream, over={"delay_s": 0.05}).finish == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_a_spike_is_in_the_usage(stream):
    assert ask_once("cost_spike_tokens", stream=stream).tokens == sum(SPIKE)
    assert ask_once("cost_spike_tokens", stream=stream, tools=[LOOK]).tokens == sum(SPIKE)


def test_the_wait_that_a_refusal_asks_for():
    found = {}
    for name in ("retry_after", "rate_limit"):
        with pytest.raises(openai.RateLimitError) as caught:
            ask_once(name)
        found[name] = caught.value.response.headers.get("retry-after")
    assert found == {"retry_after": "2", "rate_limit": None}


def test_the_client_retries_as_it_always_does():
    """Four times refused, then good: the client's own retries get through."""

    async def ask(url: str) -> Heard:
        async with client(url).with_options(max_retries=4) as made:
            return await hear(made, stream=False)

    with ScriptedEndpoint(lambda received: replace(reply(received), headers={"Retry-After": "0.01"})) as endpoint:
        reply = playing("retry_after", times=4)
        assert asyncio.run(ask(endpoint.url)).finish == "stop"
        assert len(endpoint.received) == 5
