import asyncio

from fabric.adapters.providers.router import ModelRouter
from fabric.core.inputs import ModelReplied
from fabric.core.spec import ModelSpec
from fabric.core.taxonomy import Cause
from simulator.provider import ScriptedProvider
from tests.fabric.adapters.providers.asking import request


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
