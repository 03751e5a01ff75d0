"""A fabric's page describes its stages: the gates of its runs then ask just that, in their order."""

from __future__ import annotations

import html

import pytest

from console.words.fabrics import NO_POLICY, PASSES_ON, list_stages
from fabric.core.values.flow import RunState, Stage
from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.world import DOUBTFUL, SMALL, ran

JUDGED = (
    SMALL.replace("name: small", "name: judged")
    .replace("provider: scripted\n", "provider: scripted\n    options: {score: 0.9}\n")
    .replace("topology:\n", "  - {name: judge, model: script, instructions: Judge.}\ntopology:\n  plan_critic: judge\n")
    + """\
gates:
  max_outcome_chars: 9000
  grounding: citations
  grounding_critic: judge
  invariants: [{stage: fan_out, name: some, expression: 'size(payload) > 0', message: Nothing came back.}]
  guardrails: [{places: [plan], rules: [credentials], patterns: [{name: own, pattern: NEVER}]}]
  policies: [{name: open, text: 'permit(principal, action, resource);'}]
  oracle: [{name: record, expression: 'outcome.text != ""', message: Nothing was said.}]
"""
)
SPOKEN = {"fan-in": "schema", "guardrails": "policy", "invariant": "invariants", "grounding critic": "grounding_critic"}
"""What the page calls a gate's check, where it is not by the check's own name."""


def checks(sentences) -> list[str]:
    """The checks of a gate that sentences are about, each once."""
    names = (one.partition(":")[0].removesuffix(" of what it passes on") for one in sentences)
    return list(dict.fromkeys(SPOKEN.get(name, name) for name in names))


def test_every_stage_passes_something_on():
    assert set(PASSES_ON) == set(Stage)


def test_the_page_says_what_the_gates_of_a_run_ask(actor):
    run = ran(actor, fabric_publish(actor=actor, source=JUDGED).name)
    assert run.state is RunState.COMPLETED
    lines = {str(line.stage): line for line in list_stages(fabric_read(JUDGED).spec)}
    left = [row.fact for row in run_events(actor, run.id, limit=500) if row.kind == "stage_left"]
    assert len(left) == len(Stage)
    for fact in left:
        passed = {one["name"]: one for one in fact["gate"]["checks"] if one["result"] != "not_configured"}
        said = checks(lines[fact["stage"]].checks)
        assert said == [name for name in passed if name != "confidence"]
        # Branches are put before policies one by one as they are looked through; their list is the engine's own.
        assert passed["policy"]["policies"] == ([] if fact["stage"] == Stage.FAN_OUT else ["open"])
        assert bool(lines[fact["stage"]].confidence) is (fact["gate"].get("score") is not None)


def test_judges_policies_and_guardrails_are_on_the_page(browser, actor):
    fabric_publish(actor=actor, source=JUDGED)
    page = html.unescape(browser.get("/fabrics/judged?tab=stages").content.decode())
    assert page.count("policy: entering is permitted by the fabric's policies (open)") == len(Stage)
    assert page.count("guardrails: nothing of credentials, own") == 1
    assert "invariant: some" in page
    assert "critic: judge accepts the plan before it goes out" in page
    assert page.count("grounding critic: judge finds each statement founded") == 1
    assert "oracle: record, by its expression" in page
    assert "none, so that nothing is denied" not in page


def test_a_fabric_without_policies_says_so(browser, small):
    page = html.unescape(browser.get("/fabrics/small?tab=stages").content.decode())
    assert page.count(NO_POLICY) == 2 * len(Stage) - 1, "the outcome is searched for credentials"
    assert page.count("guardrails: nothing of credentials") == 1
    assert "below tau" not in page


@pytest.mark.parametrize(
    ("grounding", "said"),
    [
        ("citations", ["every cited document is attached"]),
        ("quotes", ["every cited document is attached", "every quoted passage is in its source"]),
        (
            "numbers",
            ["every cited document is attached", "every quoted passage is in its source", "every number is in"],
        ),
    ],
)
def test_grounding_is_told_by_its_level(grounding, said):
    lines = {line.stage: line for line in list_stages(fabric_read(f"{SMALL}gates: {{grounding: {grounding}}}\n").spec)}
    for stage in Stage:
        found = [one for one in lines[stage].checks if one.startswith("grounding: ")]
        assert len(found) == (len(said) if stage in (Stage.FAN_IN, Stage.FINALIZE) else 0)
        assert all(words in one for words, one in zip(said, found, strict=False))


def test_who_scores_has_a_confidence():
    lines = {line.stage: line.confidence for line in list_stages(fabric_read(DOUBTFUL).spec)}
    assert {stage for stage, said in lines.items() if said} == {Stage.VALIDATE}
    assert lines[Stage.VALIDATE] == "confidence: a score below the needed score, 0.7, goes to a person"


NONE = SMALL.replace("name: small", "name: none").replace("\nsafe_fallback: This cannot be answered here.", "")
BATCH = "tiers: {default: batch, allowed: [batch]}\n"


def test_the_static_answer_is_shown_with_the_cells_that_ask_for_it(browser, small):
    page = html.unescape(browser.get("/fabrics/small?tab=stages").content.decode())
    assert "<p>This cannot be answered here.</p>" in page
    assert page.count('<a href="?tab=table#cell-') == 1
    assert "?tab=table#cell-unsafe_output-interactive" in page
    assert 'id="cell-unsafe_output-interactive"' in browser.get("/fabrics/small?tab=table").content.decode()


def test_a_fabric_without_one_says_what_happens_in_its_place(browser, actor):
    fabric_publish(actor=actor, source=NONE)
    page = html.unescape(browser.get("/fabrics/none?tab=stages").content.decode())
    assert "the run returns its error and partial result instead" in page
    assert "?tab=table#cell-unsafe_output-interactive" in page
    assert "No reachable cell" not in page


def test_where_no_cell_asks_for_it_that_is_said(browser, actor):
    fabric_publish(actor=actor, source=f"{NONE}{BATCH}")
    page = html.unescape(browser.get("/fabrics/none?tab=stages").content.decode())
    assert "No reachable cell uses it." in page
    assert "#cell-" not in page


def test_a_static_answer_does_not_act(browser, actor):
    told = "<b>&\u202e no </b>"
    source = SMALL.replace("safe_fallback: This cannot be answered here.", 'safe_fallback: "<b>&\\u202e no </b>"')
    fabric_publish(actor=actor, source=source)
    page = browser.get("/fabrics/small?tab=stages").content.decode()
    assert told not in page
    assert "\u202e" not in page
    assert "&lt;b&gt;" in page
