"""MCP servers over HTTP that pack what they answer, whether that was asked for or not."""

import json
from dataclasses import replace

import pytest

from fabric.http.transport import Gate
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.http.packed_bodies import PACK
from tests.fabric.tools.mcp.worlds import call, http, played, runner

RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "old", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}


@pytest.mark.parametrize("name", sorted(PACK))
def test_a_packed_answer_is_read(name):
    def script(received):
        body = received.body or {}
        if body.get("method") not in RESULTS:
            return Step(status=202)
        said = {"jsonrpc": "2.0", "id": body["id"], "result": RESULTS[body["method"]]}
        step = Step(body=PACK[name](json.dumps(said).encode()), headers={"Content-Encoding": name})
        return replace(step, content_type="application/json")

    with ScriptedEndpoint(script) as endpoint:
        server = http(endpoint.authority)
        port = runner(server, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, server, "act", {}), port)
    assert found.result == "done"
