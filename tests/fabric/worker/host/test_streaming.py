"""A host with the real adapter, a real endpoint and real tools: a call begins while its answer is still coming in, and nothing is made twice when the stream breaks off."""

import json
import threading

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import compile_spec
from fabric.core.values.fingerprint import decode
from fabric.providers.exchange.wire import STREAM_TYPE
from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.prompts import overhead_bytes
from fabric.stores.writer import JournalWriter
from fabric.tools.runner import ToolRunner, offers
from fabric.worker.host import HostConfig, Ports, RunHost
from fabric.worker.nudges.listener import NullNudge
from fabric.worker.process.clock import SYSTEM_CLOCK
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.wires import STREAMED, VERTEX
from tests.fabric.worker.host.scenes import NEVER_S, WAIT_S, Site, Watched

BRIEF = {"agent": "worker", "title": "Sums", "instructions": "Work them out."}
CALLS = [("calculator", {"expression": f"{n} + {n}"}, call_id) for n, call_id in enumerate("abc", 1)]
DONE = '{"text": "2, 4 and 6.", "citations": []}'


def revision(spoken):
    """A fabric whose model speaks a provider's protocol."""
    spec = FabricSpec.model_validate(
        {
            "name": "sums",
            "title": "Sums",
            "tiers": {"default": "batch", "allowed": ["batch"]},
            "models": [
                {
                    "name": "small",
                    "provider": spoken.name,
                    "model": spoken.model,
                    "price": {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"},
                    "options": {**dict(spoken.options), "stream": True},
                }
            ],
            "tools": [{"name": "calculator", "kind": "builtin"}],
            "agents": [
                {"name": "worker", "instructions": "You work out sums.", "model": "small", "tools": ["calculator"]}
            ],
            "topology": {
                "workers": ["worker"],
                "plan": {"goal": "The sums.", "briefs": [BRIEF], "exit_criteria": ["They are right."]},
            },
            "policy": {"budget": {"run_usd_micros": 10_000_000}, "retry": {"base_s": 0.01}},
            "reviewers": ["reviewer"],
        }
    )
    told = {tool.name: offers(tool) for tool in spec.all_tools}
    fabric = compile_spec(
        spec,
        prices={model.name: model.price.price() for model in spec.models if model.price},
        prompt_overhead={agent.name: overhead_bytes(spec, agent, told) for agent in spec.agents},
    )
    return Revision(fabric, told)


class Tools(ToolRunner):
    """The real tools, and the word of each run of one."""

    def __init__(self):
        super().__init__()
        self.ran = threading.Semaphore(0)
        self.keys = []

    async def run(self, request):
        self.keys.append(request.idempotency_key)
        result = await super().run(request)
        self.ran.release()
        return result


class Sums(Site):
    """A site whose models are an endpoint's."""

    def __init__(self, store, spoken):
        super().__init__(store)
        self.spoken = spoken

    def over(self, endpoint, tools):
        found = revision(self.spoken)
        ports = Ports(
            store=self.store,
            writer=JournalWriter(self.store, NullNudge()),
            models=self.spoken.port(endpoint, ""),
            tools=tools,
            clock=SYSTEM_CLOCK,
            revision=lambda _: found,
            grants=self.tokens[0],
            buckets=self.tokens[1],
        )
        config = HostConfig(sweep_s=NEVER_S, beat_s=NEVER_S, lease_s=NEVER_S)
        host = RunHost(ports, "host-of-sums", config, self.released.put)
        self.hosts.append(host)
        host.start()
        return host

    def seqs(self, run_id, kind):
        return [row.seq for row in self.store.journal(run_id) if row.kind == kind]


@pytest.fixture(params=STREAMED, ids=lambda spoken: f"{spoken.name} {spoken.path}")
def site(request):
    made = Sums(Watched(), request.param)
    yield made
    made.close()


def played(site, script):
    tools = Tools()
    with ScriptedEndpoint(lambda received: script(received, tools)) as endpoint:
        host, run_id = site.over(endpoint, tools), site.create()
        host.offer()
        site.until_released(run_id)
        return run_id, tools, endpoint.received


def sends(spoken, *given):
    return Step(content_type=STREAM_TYPE, pieces=tuple(spoken.events(*given)))


def parts(spoken, whole):
    """The events up to the end of so many calls, and the rest, which begin with the next call."""
    events = spoken.events(None, CALLS)
    at = next(n for n, event in enumerate(events) if f'"{CALLS[whole][2]}"'.encode() in event)
    return events[:at], events[at:]


def test_a_tool_runs_before_the_answer_that_asks_for_it_has_ended(site):
    first, rest = parts(site.spoken, 1)

    def script(received, tools):
        if received.number > 1:
            return sends(site.spoken, DONE)

        def held():
            yield from first
            assert tools.ran.acquire(timeout=WAIT_S), "no tool ran while the answer was coming in"
            yield from rest

        return Step(content_type=STREAM_TYPE, pieces=held())

    run_id, tools, received = played(site, script)
    assert site.outcome(run_id) == "completed"
    assert len(tools.keys) == len(set(tools.keys)) == 3
    began, *_ = site.seqs(run_id, "call_streamed")
    assert began < site.seqs(run_id, "tool_answered")[0] < site.seqs(run_id, "model_answered")[0]
    sent = json.dumps(received[1].body)
    if site.spoken is VERTEX:
        assert sent.index('"functionResponse"') > sent.rindex('"functionCall"')  # It takes no ids of calls.
    else:
        assert all(f'"{call_id}"' in sent for _, _, call_id in CALLS)


@pytest.mark.parametrize("whole", [1, 2])
def test_a_stream_that_drops_after_whole_calls_is_asked_again_in_the_open(site, whole):
    first, _ = parts(site.spoken, whole)

    def script(received, tools):
        if received.number > 1:
            return sends(site.spoken, *((None, CALLS) if received.number == 2 else (DONE,)))

        def cut():
            yield from first
            assert all(tools.ran.acquire(timeout=WAIT_S) for _ in range(whole))
            raise ConnectionError("the endpoint goes away")

        return Step(content_type=STREAM_TYPE, pieces=cut())

    run_id, tools, received = played(site, script)
    assert site.outcome(run_id) == "completed"
    (failed,) = site.facts(run_id, "attempt_failed")
    assert (failed["cause"], failed["partial"]) == ("dropped_stream", True)
    assert failed["charged_usd_micros"] > 0
    assert [one["attempt"] for one in site.facts(run_id, "retry_scheduled")] == [2]
    assert site.facts(run_id, "call_deduplicated") == []
    assert len(tools.keys) == len(set(tools.keys)) == 3 + whole
    assert len(received) == 3
    (raw,) = [decode(row.payload)["raw"] for row in site.store.journal(run_id) if row.kind == "attempt_failed"]
    assert "calculator" in raw
