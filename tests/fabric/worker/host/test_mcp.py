"""Runs whose agents call tools of MCP servers, on the real host with the real tool port: what the saga makes of a server that dies in mid-call."""

import os
import select

import pytest

from fabric.core.events.inputs import ModelReplied, ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.tools.runner import ToolRunner
from tests.benchmarks.throughput.spec import SPEC
from tests.fabric.tools.mcp.worlds import STARTS_A_CHILD, alive, children_of, permits, program, stdio
from tests.fabric.worker.host.scenes import Site, Watched, own_threads, said

ANY = {"type": "object"}
PLAIN = stdio(variables=("MCP_NOTES",))
WITH_CHILD = program(STARTS_A_CHILD, variables=("MCP_NOTES",))


@pytest.fixture
def site(tmp_path, request):
    made = Site(Watched())
    server = made.server = WITH_CHILD if getattr(request, "param", "") else PLAIN
    ports = []

    def port():
        ports.append(ToolRunner(permits=permits(server, "MCP_NOTES", MCP_NOTES=str(tmp_path))))
        return ports[-1]

    made.tools = port
    yield made
    made.close()
    for one in ports:
        one.close()
    assert own_threads() == []


def with_tool(name, server, effect="read_only", **changed):
    """flow5 with one worker who has a tool of the server, and what may undo it."""
    tools = [
        {
            "name": "act",
            "kind": "mcp",
            "target": f"things/{name}",
            "description": "D",
            "parameters": ANY,
            "effect": effect,
            **changed,
        },
        {
            "name": "undo",
            "kind": "mcp",
            "target": "things/echo",
            "description": "D",
            "parameters": ANY,
            "effect": "idempotent",
        },
    ]
    tree = SPEC.model_dump(mode="json", by_alias=True)
    agents = [agent | ({"tools": ["act"]} if agent["name"] == "worker" else {}) for agent in tree["agents"]]
    plan = {"goal": "G", "briefs": [{"agent": "worker", "title": "T", "instructions": "I"}], "exit_criteria": ["Done."]}
    topology = tree["topology"] | {"plan": plan, "planner": None}
    return FabricSpec.model_validate(
        tree | {"mcp_servers": [server.model_dump(mode="json")], "tools": tools, "agents": agents, "topology": topology}
    )


def calling(args):
    """The worker calls its tool once, and then says what it has."""

    def answer(request):
        called = any(message.role == "tool" for message in request.messages)
        if request.agent != "worker" or called:
            return said(request)
        call = ToolCall(call_id="c1", tool="act", args=args)
        return ModelReplied(command_id=request.command_id, attempt=request.attempt, text="", calls=(call,))

    return answer


def played(site, spec, args):
    site.spec = spec
    agents = site.agents(calling(args))
    host = site.host(agents)
    run = site.create()
    host.offer(run)
    site.until_released(run)
    return run, agents, host


@pytest.mark.parametrize("site", ["child"], indirect=True)
def test_a_run_calls_a_tool_of_a_server_whose_process_ends_with_the_host(site):
    run, agents, host = played(site, with_tool("whoami", site.server), {})
    assert site.outcome(run) == "completed"
    (told,) = [m.text for one in agents.ledger for m in one.request.messages if m.role == "tool"][:1]
    pid = int(told.split('"')[-2].split()[0]) if '"' in told else int(told.split()[0])
    assert pid != os.getpid()
    (child,) = children_of(pid)
    watch = os.pidfd_open(child)
    host.stop(5.0)
    ended, _, _ = select.select([watch], [], [], 10)
    os.close(watch)
    assert ended
    assert not alive(pid)
    assert (
        host.ports.tools.servers._kept == {}
    )  # By its own task, on its loop, and not by what a loop that ends leaves behind.


def test_a_read_only_call_whose_server_dies_goes_out_again_to_another_one(site, tmp_path):
    run, agents, _ = played(site, with_tool("fail", site.server), {"how": "exit"})
    issued = [fact for fact in site.facts(run, "call_issued") if fact["call"] == "tool"]
    assert [fact["attempt"] for fact in issued[:2]] == [1, 2]
    assert issued[0]["key"] == issued[1]["key"]
    # Once the server has ended twice in a row, some attempts meet its pause and are not sent.
    assert 2 <= len((tmp_path / "fails").read_text()) <= len(issued)


def test_a_mutating_call_whose_server_dies_is_never_sent_again_and_a_person_is_asked(site, tmp_path):
    run, agents, _ = played(site, with_tool("fail", site.server, "mutating", compensation="undo"), {"how": "exit"})
    assert (tmp_path / "fails").read_text() == "x"
    (settled,) = site.facts(run, "mutation_settled")
    assert (settled["outcome"], settled["status"]) == ("unknown", "unknown")
    (opened,) = site.facts(run, "review_opened")
    assert opened["item"] == "failure"
    assert opened["reason"].startswith("it is unknown whether act was executed")
