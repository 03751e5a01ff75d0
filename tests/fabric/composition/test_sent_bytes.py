"""A model is sent what the journal says: a whole run over HTTP, each request's body compared, byte by byte, with the one rebuilt from its events."""

from __future__ import annotations

import json

import pytest

from fabric.composition import engine as wiring
from fabric.composition.models import BUILT_IN, http_port
from fabric.core import events as ev
from fabric.core.calls.issue import command_for
from fabric.core.events.commands import CallModel
from fabric.core.events.envelope import list_events
from fabric.core.evolve import evolve
from fabric.core.state.context import Contents
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import decode
from fabric.core.values.taxonomy import Tier
from fabric.core.values.tracing import find_trace
from fabric.models import Run as RunRow
from fabric.runtime import prompts
from fabric.runtime.ports.journal import Document
from fabric.services.fabrics.revisions import fabric_publish
from fabric.tools.runner import offers
from simulator.endpoint import ScriptedEndpoint, answer, call
from simulator.endpoint.player import render_step
from simulator.endpoint.protocols import find_protocol
from simulator.endpoint.protocols.protocol import SimulatedRequest
from tests.fabric.composition.installation import installation
from tests.fabric.providers.wires import BEDROCK

pytestmark = pytest.mark.django_db(transaction=True)

FABRIC = """\
name: sent
title: A worker with a tool, and one with a schema
models:
  - name: main
    provider: {provider}
    model: m-1
    base_url: {url}
    price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
    options: {options}
tools:
  - name: read_document
agents:
  - {{name: planner, model: main, instructions: Plan.}}
  - {{name: worker, model: main, instructions: "Wörk „carefully“.", tools: [read_document], inline_document_chars: 200}}
  - {{name: writer, model: main, instructions: Write.}}
topology: {{planner: planner, workers: [worker], finalizer: writer}}
policy:
  budget: {{run_usd_micros: 10000000}}
reviewers: [owner]
"""
PLAN = json.dumps(
    {
        "goal": "Answer.",
        "briefs": [{"agent": "worker", "title": "Part", "instructions": "Do it, \u2028 please."}],
        "exit_criteria": ["Done."],
    }
)
SUMMARY = json.dumps({"text": "What I found: 1.0 \u20ac, \U0001f600.", "citations": []})
NOTES = Document("nötes.md", "The budget is 40 dollars.\r\nThe deadline is Friday \u2013 and it will not move.")
PROTOCOLS = {
    "openai_compatible": ("openai", {}),
    "responses": ("openai", {"api": "responses"}),
    "anthropic": ("anthropic", {}),
    "google": ("google", {}),
    "azure": ("azure", {}),
    "azure_dated": ("azure", {"api_version": "2024-10-21"}),
    "azure_responses": ("azure", {"api": "responses"}),
    "vertex": ("vertex", {"project": "p", "location": "us-central1"}),
    "bedrock": ("bedrock", {}),
}
WHOLE_ALONE = frozenset({"bedrock"})
"""Those that are asked for no stream."""
CASES = [(name, stream) for name in PROTOCOLS for stream in (False, True) if not (stream and name in WHOLE_ALONE)]


def spoken_by(request):
    """The answer in the protocol that was spoken."""
    if request.path.endswith("/converse"):
        return conversed(script(request))
    protocol = find_protocol(request.path)
    assert protocol is not None, request.path
    return render_step(script(request), protocol, SimulatedRequest(request.number, request.body, request.path))


def conversed(step):
    """The same as Amazon Bedrock answers it."""
    message = json.loads(step.body)["choices"][0]["message"]
    calls = [
        (one["function"]["name"], json.loads(one["function"]["arguments"]), one["id"])
        for one in message.get("tool_calls", ())
    ]
    return BEDROCK.answer(message["content"], calls)


def script(request):
    if request.agent == "planner":
        return answer(PLAN)
    if request.agent == "worker" and request.agent_number == 1:
        return answer("I look first.", [call("read_document", {"name": "nötes.md"}, "call-1")])
    return answer(SUMMARY)


def rebuilt(run_id):
    """The body of each model call of a run, from its events, its documents and its revision alone."""
    row = RunRow.objects.get(id=run_id)
    compiled = wiring.compile_published(row.revision_id)
    run, contents = Run(run_id, tier=Tier(row.tier), seed=row.seed), Contents()
    offered = {tool.name: offers(tool) for tool in compiled.spec.all_tools}
    texts = wiring.store().documents(run_id)
    rows = wiring.store().journal(run_id)
    payloads = {row.seq: row.payload for row in rows}
    for event in list_events(rows):
        payload = payloads.get(event.seq)
        if payload is not None:
            contents.put(event.content_ref, decode(payload), event.content_bytes)
        run = evolve(run, event)
        fact = event.fact
        if not isinstance(fact, ev.CallIssued) or fact.call != "model":
            continue
        command = command_for(run, compiled.spec, fact)
        assert isinstance(command, CallModel)
        request = prompts.model_request(
            command,
            trace=find_trace(row.trace_id, run_id),
            spec=compiled.spec,
            contents=contents,
            documents=lambda: texts,
            offers=offered,
            workspace=row.workspace_id,
            streamed=lambda given: None,
        )
        yield fact.key, http_port(request.model.provider).write_body(request)


def asked(options, protocol, stream):
    return options if protocol in WHOLE_ALONE else options | {"stream": stream}


def test_every_provider_that_is_asked_by_http_is_compared():
    assert {provider for provider, _ in PROTOCOLS.values()} == set(BUILT_IN)


@pytest.mark.parametrize(
    ("protocol", "stream"), CASES, ids=[f"{name}-{'streamed' if stream else 'whole'}" for name, stream in CASES]
)
def test_the_bytes_that_are_sent_are_the_bytes_that_the_journal_says(protocol, stream, settings):
    provider, options = PROTOCOLS[protocol]
    with ScriptedEndpoint(spoken_by) as endpoint:
        settings.FABRIC_ALLOWED_HOSTS = (endpoint.authority,)
        given = {"provider": provider, "url": endpoint.url, "options": json.dumps(asked(options, protocol, stream))}
        with installation() as site:
            fabric_publish(actor=site.actor, source=FABRIC.format(**given))
            run_id = site.start("sent", "Wie viel ist es? \u201e40\u201c \\ \x7f", (NOTES,))
            row = site.rest(run_id)
        received = endpoint.wait(0)
    assert row.state == "completed", row.reason
    sent = [(one.idempotency_key, one.raw) for one in received]
    assert len(sent) == 4
    assert sent == list(rebuilt(run_id))
    streamed = [one.body.get("stream") is True or "stream" in one.path.lower() for one in received]
    assert any(streamed) is stream
