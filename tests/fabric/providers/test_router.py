import asyncio
import threading
import time

from fabric.core.events.inputs import ModelReplied
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.providers.router import LateProvider, ModelRouter
from simulator.agents.provider import ScriptedProvider
from tests.fabric.providers.asking import request


def test_a_request_goes_to_the_provider_that_its_model_names():
    router = ModelRouter({"scripted": ScriptedProvider()})
    result = asyncio.run(router.ask(request(model=ModelSpec(name="main", provider="scripted"))))
    assert isinstance(result, ModelReplied)
    assert "Hello?" in result.text


def test_an_unknown_provider_is_a_failure_that_names_the_known_ones():
    router = ModelRouter({"scripted": ScriptedProvider(), "openai": ScriptedProvider()})
    result = asyncio.run(router.ask(request(model=ModelSpec(name="main", provider="nobody"))))
    assert result.cause is Cause.BAD_CONFIGURATION
    assert result.message == "model 'main' names provider 'nobody'; there are: openai, scripted"


def now():
    return time.time_ns() // 1_000


def late(seconds=60.0):
    """A request whose deadline begins now, not when the tests were collected."""
    return request(seconds, model=ModelSpec(name="main", provider="late"))


def test_a_late_provider_is_made_once_when_it_is_first_asked_and_not_on_the_loop():
    made = []

    def make():
        made.append(threading.current_thread())
        return ScriptedProvider()

    async def go():
        provider = LateProvider(make, now)
        assert made == []
        first = await asyncio.gather(*(provider.ask(late()) for _ in range(5)))
        return [*first, await provider.ask(late())]

    assert {type(result) for result in asyncio.run(go())} == {ModelReplied}
    assert len(made) == 1
    assert made[0] is not threading.current_thread()


def test_one_that_cannot_be_made_is_a_failure_that_says_why_and_is_tried_again():
    tries = []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise ImportError("No module named 'anthropic'")
        return ScriptedProvider()

    async def go():
        provider = LateProvider(make, now)
        return await provider.ask(late()), await provider.ask(late())

    first, second = asyncio.run(go())
    assert first.cause is Cause.BAD_CONFIGURATION
    assert first.message == "provider 'late' cannot be loaded here (ImportError: No module named 'anthropic')"
    assert isinstance(second, ModelReplied)


def test_one_that_takes_too_long_to_make_ends_at_the_deadline_and_serves_the_next():
    let = threading.Event()

    def make():
        assert let.wait(30)
        return ScriptedProvider()

    async def go():
        provider = LateProvider(make, now)
        first = await provider.ask(late(0.05))
        let.set()
        return first, await provider.ask(late())

    first, second = asyncio.run(go())
    assert (first.cause, first.billed) == (Cause.TIMEOUT, False)
    assert "was still being loaded when the deadline came" in first.message
    assert isinstance(second, ModelReplied)
