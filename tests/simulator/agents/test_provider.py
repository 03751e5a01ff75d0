import asyncio

from fabric.core.events.inputs import ModelReplied
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from simulator.agents.provider import ScriptedProvider
from simulator.agents.script import answer
from tests.fabric.providers.asking import request


def ask(within_s=30.0, **options):
    asked = request(within_s, model=ModelSpec(name="main", provider="scripted", options=options))
    return asked, asyncio.run(asyncio.wait_for(ScriptedProvider().ask(asked), 60))


def test_the_answer_is_the_virtual_world_s():
    asked, result = ask(delay_s=0.01)
    assert isinstance(result, ModelReplied)
    assert result == answer(asked).result


def test_the_deadline_ends_a_slow_answer():
    _, result = ask(0.2, delay_s=60)
    assert (result.cause, result.billed) == (Cause.TIMEOUT, True)
    assert result.message.startswith("the scripted model takes 60 seconds, and 0.2 were left")


def test_nothing_is_waited_for_after_the_deadline():
    _, result = ask(-1.0)
    assert (result.cause, result.billed) == (Cause.TIMEOUT, False)
