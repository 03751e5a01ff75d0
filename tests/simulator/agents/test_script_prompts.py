"""The scripted agents read the engine's prompts: when a template's words change, they must still find what is in them."""

import pytest

from fabric.core.events.commands import CallModel, Message
from fabric.core.schema.payloads import Critique, Plan, Summary
from fabric.core.state.context import Contents
from fabric.core.values.tracing import Trace
from fabric.runtime.prompts import model_request
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.tools.runner import offers
from simulator.agents.script import answer
from tests.simulator.agents.test_script import DOCUMENTS, QUESTION, ROOT

SAMPLE = (ROOT / "fabric" / "samples" / "research-desk.yaml").read_text()
PLAN = {
    "goal": "G",
    "briefs": [{"agent": "reader", "title": "Money", "instructions": "Read plan.md."}],
    "exit_criteria": ["It is short.", "It is cited."],
}
KEPT = {
    "request": {"text": QUESTION, "documents": ["report.md", "plan.md"]},
    "plan": {"output": PLAN},
    "summary": {"output": {"text": "Revenue rose. [report.md]", "citations": ["report.md"]}},
    "parts": {
        "output": [
            {"branch": 0, "agent": "reader", "title": "Money", "ref": "summary", "gap": ""},
            {"branch": 1, "agent": "checker", "title": "Dates", "ref": "", "gap": "it timed out"},
        ]
    },
}


def said(template, agent, output, *refs, inline=0):
    spec = fabric_read(SAMPLE).spec
    agents = tuple(
        one.model_copy(update={"inline_document_chars": inline}) if one.name == agent else one for one in spec.agents
    )
    spec = spec.model_copy(update={"agents": agents})
    contents = Contents()
    for ref, value in KEPT.items():
        contents.put(ref, value, 0)
    command = CallModel(
        command_id="c1",
        attempt=1,
        step_id="s1",
        agent=agent,
        model="script",
        messages=(
            Message(role="system", template="agent@1"),
            Message(role="user", template=template, refs=("request", *refs), part=0),
        ),
        tools=spec.agent(agent).tools,
        output=output,
        max_output_tokens=1_024,
        idempotency_key="k",
        deadline_at=0,
    )
    request = model_request(
        command,
        trace=Trace("a" * 32, "r1"),
        spec=spec,
        contents=contents,
        documents=lambda: DOCUMENTS,
        offers={tool.name: offers(tool) for tool in spec.tools},
    )
    return answer(request).result


def test_the_planner_finds_the_request_the_workers_and_the_documents():
    plan = Plan.model_validate_json(said("plan@1", "planner", "plan").text)
    assert plan.goal == QUESTION
    assert [brief.agent for brief in plan.briefs] == ["reader", "searcher", "checker"]
    assert all("report.md" in brief.instructions and "plan.md" in brief.instructions for brief in plan.briefs)


@pytest.mark.parametrize(
    ("agent", "tools"),
    [
        ("reader", ["read_document"]),
        ("searcher", ["search_documents"]),
        ("checker", ["read_document", "search_documents"]),
    ],
)
def test_a_worker_finds_its_part_and_the_documents_that_it_names(agent, tools):
    calls = said("brief@1", agent, "summary", "plan").calls
    assert [call.tool for call in calls] == tools
    assert [call.args["name"] for call in calls if call.tool == "read_document"] == ["plan.md"] * (
        "read_document" in tools
    )


def test_a_worker_finds_documents_that_stand_in_the_prompt():
    summary = Summary.model_validate_json(said("brief@1", "reader", "summary", "plan", inline=5_000).text)
    assert summary.citations == ("report.md", "plan.md")


def test_the_aggregator_finds_results_and_gaps():
    summary = Summary.model_validate_json(said("merge@1", "editor", "summary", "plan", "parts").text)
    assert summary.text == "Revenue rose. [report.md]\n\nDates (checker) brought no result: it timed out"


def test_the_critic_finds_criteria_result_and_citations():
    critique = Critique.model_validate_json(said("criticise@1", "critic", "critique", "plan", "summary").text)
    assert critique.reasons == (
        "Measured against 2 exit criteria, the first being: It is short.",
        "It speaks of revenue.",
        "It cites report.md.",
    )


def test_the_finalizer_finds_the_checked_result():
    summary = Summary.model_validate_json(said("finish@1", "writer", "summary", "plan", "summary").text)
    assert summary == Summary(text="Revenue rose. [report.md]", citations=("report.md",))
