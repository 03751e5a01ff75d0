import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fabric.core.schema.payloads import Critique, Plan, Summary
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import ModelSpec
from fabric.core.texts.text import parse_json_object
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ChatMessage, ModelRequest
from fabric.runtime.ports.journal import Document
from fabric.tools.documents import read_document, search_documents
from fabric.tools.runner import offers
from simulator.agents import extracts as extract
from simulator.agents import script as scripted
from simulator.agents.script import FLOOD, SCRIPTS, answer

ROOT = Path(__file__).resolve().parents[3]
REPORT = Document(
    "report.md",
    "# Annual report\n\nRevenue rose to 4.2 million euros in 2025. The office moved to a new street in spring.\n\n"
    "| table | row |\n\n- Costs fell by **three percent**, mostly for energy.\n",
)
PLAN = Document("plan.md", "The plan names two markets for next year. Revenue is expected to reach 5 million euros.")
DOCUMENTS = (REPORT, PLAN)
QUESTION = "How did revenue develop, and what is expected?"
ATTACHED = "\n\nAttached documents: report.md, plan.md"
PLANNING = (
    f"Request:\n{QUESTION}{ATTACHED}\n\nWorkers:\n- reader: Reads closely. Quotes.\n- checker: Checks numbers.\n\n"
    "Divide the request into at most 6 briefs, each for one of these workers by name."
)
BRIEF = f"Request:\n{QUESTION}\n\nYour part: Everything\nRead the documents.{ATTACHED}"
TOOLS = tuple(offers(ToolSpec(name=name)) for name in ("read_document", "search_documents"))


def request(user=BRIEF, *more, output="summary", tools=(), schema=True, limit=1_024, attempt=1, **options):
    return ModelRequest(
        command_id="c1",
        attempt=attempt,
        run_id="r1",
        trace_headers={},
        agent="reader",
        model=ModelSpec(name="main", provider="scripted", options=options),
        messages=(ChatMessage("system", "You are reader."), ChatMessage("user", user), *more),
        tools=tools,
        output=output,
        output_schema={} if schema else None,
        max_output_tokens=limit,
        idempotency_key="k",
        deadline_at=0,
    )


def said(*args, **kwargs):
    return answer(request(*args, **kwargs)).result


def after_tools(**kwargs):
    """The second request of a step: the first one's calls, executed."""
    asked = said(tools=TOOLS, **kwargs).calls
    run = {"read_document": read_document, "search_documents": search_documents}
    results = (
        ChatMessage("tool", json.dumps(run[call.tool](DOCUMENTS, **call.args)), call_id=call.call_id, tool=call.tool)
        for call in asked
    )
    return said(BRIEF, ChatMessage("assistant", "", asked), *results, tools=TOOLS, **kwargs)


# -- the cooperative script --


def test_a_plan_has_a_brief_for_each_worker_and_an_exit_criterion():
    plan = Plan.model_validate_json(said(PLANNING, output="plan").text)
    assert [brief.agent for brief in plan.briefs] == ["reader", "checker"]
    assert plan.goal == QUESTION
    assert plan.exit_criteria
    assert "report.md" in plan.briefs[0].instructions
    assert "plan.md" in plan.briefs[1].instructions
    assert "Checks numbers." in plan.briefs[1].instructions


def test_workers_may_be_named_in_the_options():
    plan = Plan.model_validate_json(said("Do it.", output="plan", workers=["a", "b", "a"]).text)
    assert [brief.agent for brief in plan.briefs] == ["a", "b", "a"]


def test_a_plan_keeps_to_the_number_of_briefs_that_is_allowed():
    few = PLANNING.replace("at most 6", "at most 1")
    assert len(Plan.model_validate_json(said(few, output="plan").text).briefs) == 1


def test_documents_are_fetched_before_an_answer():
    calls = said(tools=TOOLS).calls
    assert [(call.tool, call.args.get("name")) for call in calls] == [
        ("read_document", "report.md"),
        ("read_document", "plan.md"),
        ("search_documents", None),
    ]
    assert len({call.call_id for call in calls}) == 3
    assert said().calls == ()


def test_a_part_that_names_documents_reads_those():
    part = BRIEF.replace("Read the documents.", "Read plan.md.")
    assert [call.args.get("name") for call in said(part, tools=TOOLS[:1]).calls] == ["plan.md"]


def test_a_summary_quotes_and_cites_what_was_read():
    summary = Summary.model_validate_json(after_tools().text)
    assert summary.citations == ("report.md", "plan.md")
    assert "“Revenue rose to 4.2 million euros in 2025.” " in summary.text
    assert "“Revenue is expected to reach 5 million euros.”" in summary.text
    for name, document in (("report.md", REPORT), ("plan.md", PLAN)):
        quoted = summary.text.split(f"{name} says: ")[1].split(f" [{name}]")[0]
        plain = " ".join(document.text.replace("*", "").split())
        assert all(piece.strip("“” ") in plain for piece in quoted.split("” “"))


def test_a_text_agent_gets_words_with_citations_in_brackets():
    text = after_tools(schema=False).text
    assert text.startswith("report.md says: “Revenue rose")
    assert text.endswith("[plan.md]")


def test_documents_in_the_prompt_are_read_from_there():
    inlined = f"Request:\n{QUESTION}\n\nYour part: All\nRead.\n\nAttached documents:\n--- report.md ---\n{REPORT.text}\n--- plan.md ---\n{PLAN.text}"
    result = said(inlined, tools=TOOLS)
    assert result.calls == ()
    assert Summary.model_validate_json(result.text).citations == ("report.md", "plan.md")


def test_without_documents_it_says_so_and_cites_nothing():
    summary = Summary.model_validate_json(said(f"Request:\n{QUESTION}\n\nYour part: Money\nLook.", tools=TOOLS).text)
    assert summary.citations == ()
    assert "no document is attached" in summary.text


def test_brackets_within_a_document_s_text_are_no_citation():
    merge = (
        f"Request:\n{QUESTION}\n\nResults:\n## One (reader)\nlog.md says: “In the form of [Keep a Changelog](x).” [log.md]"
        "\n\nMerge these results into one answer to the request."
    )
    assert Summary.model_validate_json(said(merge).text).citations == ("log.md",)


def test_results_are_merged_with_their_citations_and_gaps():
    merge = (
        f"Request:\n{QUESTION}\n\nResults:\n## One (reader)\nRevenue rose. [report.md]\n\n## Two (checker)\n"
        "No result: it timed out\n\nMerge these results into one answer to the request."
    )
    summary = Summary.model_validate_json(said(merge).text)
    assert summary.text == "Revenue rose. [report.md]\n\nTwo (checker) brought no result: it timed out"
    assert summary.citations == ("report.md",)


def test_a_checked_result_becomes_the_answer():
    finish = f"Request:\n{QUESTION}\n\nChecked result:\nRevenue rose.\n\nTwice.\nCitations: report.md, plan.md\n\nWrite the final answer."
    assert Summary.model_validate_json(said(finish).text) == Summary(
        text="Revenue rose.\n\nTwice.", citations=("report.md", "plan.md")
    )


def test_a_critique_has_the_score_of_the_options_and_speaks_of_the_result():
    judge = f"Request:\n{QUESTION}\n\nExit criteria:\n- It is short.\n\nResult:\nRevenue rose.\nCitations: none\n\nScore it."
    critique = Critique.model_validate_json(said(judge, output="critique").text)
    assert critique.score == 0.9
    assert critique.reasons[0].endswith("It is short.")
    assert critique.reasons[1:] == ("It speaks of revenue.", "It cites no document.")
    assert Critique.model_validate_json(said(judge, output="critique", score=0.2).text).score == 0.2


def test_an_answer_keeps_to_its_token_limit():
    long = " ".join(f"Sentence number {n} speaks of revenue at length." for n in range(400))
    merge = f"Request:\nQ\n\nResults:\n## One (a)\n{long}\n\nMerge these results"
    result = said(merge, limit=100)
    assert result.finish == "stop"
    assert len(result.text) <= 400
    Summary.model_validate_json(result.text)


# -- the options --


def test_tokens_are_counted_by_characters_or_told():
    result = said("x" * 385)
    assert result.input_tokens == (385 + len("You are reader.")) // 4
    assert result.output_tokens == -(-len(result.text) // 4)
    told = said(input_tokens=7, output_tokens=9)
    assert (told.input_tokens, told.output_tokens) == (7, 9)


def test_answers_can_be_padded_and_cut_like_a_model_s():
    padded = said(bytes=3_000)
    assert len(padded.text.encode()) >= 3_000
    Summary.model_validate_json(padded.text)
    cut = said(bytes=3_000, limit=100)
    assert (len(cut.text), cut.finish, cut.output_tokens) == (400, "length", 100)


def test_an_agent_may_have_options_of_its_own():
    assert said(script="empty", agents={"reader": {"script": "cooperative"}}).text
    assert said(script="cooperative", agents={"reader": {"script": "empty"}}).text == ""
    assert answer(request(delay_s=2.5)).delay_s == 2.5


def test_the_first_attempts_fail_where_told():
    fail = {"cause": "rate_limit", "times": 2, "status": 429, "retry_after_s": 1}
    first, third = said(fail=fail), said(fail=fail, attempt=3)
    assert (first.cause, first.status, first.retry_after_s) == (Cause.RATE_LIMIT, 429, 1.0)
    assert third.text


def test_an_unknown_script_is_a_configuration_error():
    result = said(script="nope")
    assert result.cause is Cause.BAD_CONFIGURATION
    assert "there are: bad_arguments, " in result.message


# -- misbehaving --


def test_the_loop_proposes_the_same_call_for_ever():
    seen = []
    history = []
    for _ in range(5):
        (call,) = said(BRIEF, *history, tools=TOOLS, script="tool_loop").calls
        seen.append((call.tool, json.dumps(call.args)))
        history += [
            ChatMessage("assistant", "", (call,)),
            ChatMessage("tool", "{}", call_id=call.call_id, tool=call.tool),
        ]
    assert len(set(seen)) == 1
    assert len({message.call_id for message in history if message.role == "tool"}) == 5
    assert said(BRIEF, *history, script="tool_loop").text, "without tools it must answer"


def test_the_other_misbehaviours_are_what_their_names_say():
    assert len(said(tools=TOOLS, script="flood").calls) == FLOOD
    assert said(tools=TOOLS, script="unknown_tool").calls[0].tool == "teleport"
    broken = said(tools=TOOLS, script="bad_arguments").calls[0]
    assert broken.args is None
    assert parse_json_object(broken.raw_args)[0] is None
    assert parse_json_object(said(script="malformed").text)[0] is None
    assert said(script="empty").text == ""
    with pytest.raises(ValueError, match="text"):
        Summary.model_validate_json(said(script="off_schema").text)
    turns = [
        said(BRIEF, *[ChatMessage("assistant", "x")] * n, tools=TOOLS, script="tool_loop_of_2").calls[0].tool
        for n in range(4)
    ]
    assert turns == ["read_document", "search_documents"] * 2


@pytest.mark.parametrize("output", ["plan", "summary", "critique"])
def test_the_echo_says_what_it_heard_in_the_shape_it_was_asked_for(output):
    text = said(PLANNING, output=output, script="echo").text
    {"plan": Plan, "summary": Summary, "critique": Critique}[output].model_validate_json(text)
    assert "Request:" in text


def test_a_slip_is_followed_by_a_good_answer():
    wrong, right = (
        said(script="malformed", slips=1),
        said(BRIEF, ChatMessage("assistant", "x"), script="malformed", slips=1),
    )
    assert parse_json_object(wrong.text)[0] is None
    Summary.model_validate_json(right.text)


# -- determinism and purity --

DIGEST = """
import hashlib
from tests.simulator.agents.test_script import everything
print(hashlib.sha256(everything().encode()).hexdigest())
"""


def everything():
    """One text of what every script says to every kind of request."""
    found = [
        str(answer(request(PLANNING, output=output, tools=TOOLS, script=script)))
        for script in SCRIPTS
        for output in ("plan", "summary", "critique")
    ]
    return "\n".join([*found, str(after_tools())])


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_same_request_gives_the_same_answer_in_every_process(seed):
    done = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=ROOT,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(everything().encode()).hexdigest()


@pytest.mark.parametrize("module", [scripted, extract])
def test_the_kernel_s_agents_do_no_io(module):
    tree = ast.parse(Path(module.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    tops = {name.partition(".")[0] for name in names}
    assert tops <= {
        "__future__",
        "collections",
        "dataclasses",
        "fabric",
        "functools",
        "json",
        "re",
        "simulator",
        "typing",
    }


def test_text_without_sentences_is_quoted_by_its_lines():
    assert extract.sentences("a,b\n1,2\n\n3,4\n5,6") == ["a,b", "1,2", "3,4"]
    assert extract.sentences("# Costs\n\n| item | euro |\n|---|---|\n| rent | 5 |") == [
        "Costs",
        "item, euro",
        "rent, 5",
    ]
    assert extract.sentences("") == []
    assert extract.quotes("", "anything") == []
