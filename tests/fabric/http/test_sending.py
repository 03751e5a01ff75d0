"""The last look before a request leaves: what may not go out by then does not, whatever the port above makes of that."""

import asyncio

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.spec.tools import ToolSpec
from fabric.http.transport import SENDING, Gate, SendPermission
from fabric.providers.openai_compatible import Endpoint, OpenAICompatible
from fabric.tools.runner import ToolRunner
from simulator.endpoint import ScriptedEndpoint, answer
from tests.fabric.providers.asking import request as model_request
from tests.fabric.tools.asking import request as tool_request


async def of_model(endpoint):
    return OpenAICompatible(Endpoint(endpoint.url, "small")), lambda port: port.ask(model_request())


async def of_tool(endpoint, method="POST"):
    spec = ToolSpec(
        name="act",
        kind="http",
        description="D",
        parameters={"type": "object"},
        target=f"http://{endpoint.authority}/act",
        method=method,
    )
    return ToolRunner(gate=Gate.trust_hosts([endpoint.authority])), lambda port: port.run(tool_request(spec, {}))


def asked(port_of, *allowed):
    """One request for each; what came of it, whether it was kept from going out, and how many reached the endpoint."""

    async def scene(endpoint):
        port, ask = await port_of(endpoint)
        found = []
        for may in allowed:
            sending = SendPermission(may.__next__ if hasattr(may, "__next__") else lambda may=may: may)
            token = SENDING.set(sending)
            found.append((await ask(port), sending.stopped))
            SENDING.reset(token)
        return found

    with ScriptedEndpoint([answer("fine")]) as endpoint:
        return asyncio.run(asyncio.wait_for(scene(endpoint), 60)), len(endpoint.received)


@pytest.mark.parametrize("port_of", [of_model, of_tool])
def test_what_is_not_covered_when_the_first_byte_is_about_to_leave_does_not_leave(port_of):
    [(result, stopped)], received = asked(port_of, False)
    assert isinstance(result, CallFailed)
    assert not result.billed
    assert (stopped, received) == (True, 0)


@pytest.mark.parametrize("port_of", [of_model, of_tool])
def test_what_is_covered_goes_out_also_after_one_that_was_kept(port_of):
    found, received = asked(port_of, True, False, True)
    assert [isinstance(result, CallFailed) for result, _ in found] == [False, True, False]
    assert [stopped for _, stopped in found] == [False, True, False]
    assert received == 2


@pytest.mark.parametrize("port_of", [of_model, of_tool])
def test_one_that_is_stopped_between_its_head_and_its_body_does_not_go_out_whole(port_of):
    """No server acts on half a request, and a turn of the loop, with all that other runs do in it, lies in between."""
    [(_, stopped)], received = asked(port_of, iter([True, False]))
    assert (stopped, received) == (True, 0)


def test_one_without_a_body_has_gone_out_with_its_head():
    """Looked at once more it would be taken for unsent although it was acted on."""
    [(result, stopped)], received = asked(lambda endpoint: of_tool(endpoint, "GET"), iter([True, False]))
    assert not isinstance(result, CallFailed)
    assert (stopped, received) == (False, 1)
