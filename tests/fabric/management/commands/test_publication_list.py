"""docs/specification/publication.md sentence by sentence, and everything that a fabric may say wrongly: refused by the command, with line, column, path, reason and remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from fabric.models import Fabric, Revision
from tests.fabric.management.console import command
from tests.fabric.services.world import SMALL

POLICY = "policy:\n  budget: {run_usd_micros: 1000000}\n"
TOOLS = "tools:\n  - name: read_document\n"
TABLE = "decision_table:\n"


@dataclass(frozen=True)
class Row:
    """A change in a good fabric, and what has to be said of it: the field, and words of the reason and the remedy."""

    sentence: str
    old: str
    new: str
    path: str
    words: tuple[str, ...]


def limits(sentence: str, text: str, path: str, *words: str) -> Row:
    """Something in the policy."""
    return Row(sentence, POLICY, f"{POLICY}  {text}\n", f"policy.{path}", words)


def cell(sentence: str, failure: str, tier: str, ladder: str, *words: str, inner: str = "") -> Row:
    """A cell of the decision table."""
    text = f"{TABLE}  {failure}:\n    {tier}: {ladder}\n"
    return Row(sentence, "reviewers:", f"{text}reviewers:", f"decision_table.{failure}.{tier}{inner}", words)


def gates(sentence: str, text: str, path: str, *words: str) -> Row:
    """Something in the gates."""
    return Row(sentence, "policy:\n", f"gates:\n  {text}\npolicy:\n", f"gates.{path}", words)


def tool(sentence: str, text: str, path: str, *words: str) -> Row:
    """A further tool."""
    http = f"kind: http, target: 'https://example.org/', description: D, {text}"
    return Row(sentence, TOOLS, f"{TOOLS}  - {{name: send, {http}}}\n", f"tools.1{path}", words)


def layers(text: str, path: str, *words: str, policy: str = "", table: str = "") -> Row:
    """Something in the retry layers of preset fabro."""
    said = f"{POLICY}  retry_layers: {{preset: fabro, deviation: Cheap., {text}}}\n{policy}{table}"
    return Row("retry layers that do not fit", POLICY, said, path, words)


OBJECT = "parameters: {type: object}"
NO_REASON = "give the cell a `deviation` with the reason"
ROWS = (
    cell("a safe fallback without a static answer", "cost_overrun", "batch", "{rungs: [{reaction: safe_fallback}]}", "no static answer", "safe_fallback"),
    limits("an unknown preset", "loop_detector: {preset: fabra}", "loop_detector.preset", "'fabra'", "flow, fabro, ag2"),
    limits("an unknown preset", "limits: {visits_preset: flow}", "limits.visits_preset", "'flow'", "fabro"),
    limits("an unknown preset", "breakers: [{preset: soft}]", "breakers.0", "there is no breaker preset 'soft'; there are: semantic, endpoint"),
    limits("a preset beside what it replaces", "loop_detector: {preset: flow, detectors: [same_answer]}", "loop_detector", "give preset or detectors, not both"),
    limits("a limit of zero", "limits: {hops: 0}", "limits.hops", "0", "at least 1"),
    limits("a negative limit", "limits: {recursion: -3}", "limits.recursion", "-3", "at least 1"),
    limits("a negative limit", "retry: {cap_s: -1}", "retry.cap_s", "-1", "more than 0"),
    limits("a limit of zero", "deadlines: {batch: {call_s: 0, stage_s: 10, run_s: 20}}", "deadlines.batch.call_s", "0", "more than 0"),
    limits("a limit that is no number", "limits: {turns: many}", "limits.turns", "'many'", "whole number"),
    limits("a threshold above its window", "loop_detector: {identical_threshold: 6}", "loop_detector.identical_threshold", "6 equal calls among the last 5 can never be", "lower it"),
    limits("a threshold above its window", "loop_detector: {period_window: 3}", "loop_detector.period_repeats", "do not fit into the last 3 turns", "lower it"),
    limits("a threshold above its window", "loop_detector: {long_threshold: 31}", "loop_detector.long_threshold", "can never be"),
    limits("a threshold above its window", "loop_detector: {long_window: 1000}", "loop_detector.long_window", "switch the detector off"),
    limits("a threshold above its window", "loop_detector: {stale_threshold: 1000}", "loop_detector.stale_threshold", "switch the detector off"),
    limits("a threshold above its window", "loop_detector: {failing_threshold: 1000}", "loop_detector.failing_threshold", "switch the detector off"),
    limits("a threshold above its window", "loop_detector: {consecutive_threshold: 1000}", "loop_detector.consecutive_threshold", "more than the 160 calls", "lower it"),
    limits("a threshold above its window", "fan_in: {mode: quorum, k: 40}", "fan_in.k", "a quorum of 40 can never be met", "lower it"),
    limits("a threshold above its window", "deadlines: {batch: {call_s: 5, stage_s: 90, run_s: 60}}", "deadlines.batch.stage_s", "longer than run_s (60 s)", "lower it"),
    limits("a threshold above its window", "breakers: [{scope: tool, signals: [{names: [timeout], mode: rate, threshold: 3}]}]", "breakers.0.signals.0", "give less than 1"),
    *(
        limits("a breaker in front of nothing", f"breakers: [{{preset: endpoint, scope: {scope}, only: {only}}}]", f"breakers.0.only{path}", *words)
        for scope, only, path, *words in (
            ("agent", "[reader, riter]", ".1", "no agent is called 'riter'; there are: planner, reader"),
            ("tool", "[read_documents]", ".0", "no tool is called 'read_documents'; there are: read_document"),
            ("stage", "[fan-out]", ".0", "no stage is called 'fan-out'; there are: plan, fan_out, fan_in, validate, finalize"),
            ("provider", "[openai]", ".0", "no model of this fabric is asked at 'openai'; there are: scripted"),
            ("agent", "[reader, reader]", ".1", "'reader' is there twice"),
            ("fabric", "[small]", "", "protects all its calls", "take another scope, or leave only out"),
            ("agent", "['']", ".0", "is empty"),
            ("agent", "reader", "", "'reader'", "no list"),
        )
    ),
    limits("breakers that would be one", "breakers: [{preset: endpoint, scope: agent}, {preset: endpoint, scope: agent, only: [reader]}]", "breakers.1.only.0", "equals policy.breakers.0 in front of agent reader", "take one of the two out"),
    limits("breakers that would be one", "breakers: [{preset: endpoint}, {preset: endpoint, on_open: none, cooldown_s: 60}]", "breakers.1", "in front of provider scripted", "take one of the two out"),
    limits("an unknown preset", "retry_layers: {preset: fabra}", "retry_layers.preset", "'fabra'", "flow, fabro"),
    layers("stages: {fan_out: {retry_policy: often}}", "policy.retry_layers.stages.fan_out.retry_policy", "'often'", "patient"),
    layers("stages: {fan_outt: {}}", "policy.retry_layers.stages.fan_outt", "plan, fan_out"),
    layers("max_retries: 21", "policy.retry_layers.max_retries", "21", "at most 20"),
    limits("retry layers that do not fit", "retry_layers: {max_retries: 2}", "retry_layers.max_retries", "only preset fabro has layers", "leave max_retries out"),
    limits("an override laxer than its requirement without a reason", "retry_layers: {preset: fabro}", "retry_layers.preset", "at most 2 retries are allowed", "`deviation`"),
    layers("stages: {plan: {fallback_retry_target: handover}}", "policy.retry_layers.stages.plan.fallback_retry_target", "no agent is above the others", "topology.handover"),
    layers("edges: [{to: handover}]", "policy.retry_layers.edges.0.to", "no agent is above the others"),
    layers("edges: [{failure_class: structural, to: replan}]", "policy.retry_layers.edges.0", "class structural is the decision table's alone", "transient_infra"),
    layers("stages: {validate: {allow_partial: true}}", "policy.retry_layers.stages.validate.allow_partial", "one part", "leave it out"),
    layers("stages: {fan_out: {allow_partial: true}}", "policy.retry_layers.stages.fan_out.allow_partial", "fan_in quorum says how many are enough already", policy="  fan_in: {mode: quorum, k: 1}\n"),
    layers("max_retries: 2", "policy.retry.base_s", "waits of their own", policy="  retry: {base_s: 2}\n"),
    layers("max_retries: 2", "decision_table.provider_failure.batch.rungs.0", "retry is a layer's", "take the rung out", table="decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: retry, times: 1}, {reaction: abort}]}\n"),
    cell("a rung that layers alone command", "provider_failure", "batch", "{rungs: [{reaction: retry_node, times: 1}, {reaction: abort}]}", "policy.retry_layers with preset fabro commands it"),
    cell("a ladder without an unbounded end", "cost_overrun", "batch", "{rungs: [{reaction: abort, times: 1}]}", "the last rung must be unbounded", "leave its times out"),
    cell("a ladder without an unbounded end", "cost_overrun", "batch", "{rungs: [{reaction: retry}]}", "retry does not end anything"),
    cell("a ladder that never reaches its end", "cost_overrun", "batch", "{rungs: [{reaction: abort}, {reaction: escalate}]}", "only the last rung may be unbounded"),
    cell("a ladder without rungs", "cost_overrun", "batch", "{rungs: []}", "give at least one", inner=".rungs"),
    limits("an unknown mechanism", "loop_detektor: {}", "loop_detektor", "there is no such field", "loop_detector"),
    limits("an unknown detector", "loop_detector: {detectors: [same_answer, Z]}", "loop_detector.detectors", "'Z'", "same_answer"),
    cell("an unknown reaction", "cost_overrun", "batch", "{rungs: [{reaction: panic}]}", "'panic'", "abort", inner=".rungs.0.reaction"),
    Row("an unknown failure type", "reviewers:", f"{TABLE}  bad_weather: {{}}\nreviewers:", "decision_table.bad_weather", ("'bad_weather'", "cost_overrun")),
    gates("a pattern that would not end", "guardrails: [{patterns: [{name: own, pattern: '(?=a+)+b'}]}]", "guardrails.0.patterns.0.pattern", "pattern 'own' is no RE2 pattern"),
    gates("a pattern that would not end", "guardrails: [{patterns: [{name: own, pattern: '(a+)\\1'}]}]", "guardrails.0.patterns.0.pattern", "pattern 'own' is no RE2 pattern"),
    tool("a pattern that would not end", "parameters: {type: object, properties: {q: {type: string, pattern: '(a+)\\1$'}}}", "", "the schema does not compile"),
    gates("a policy that does not parse", "policies: [{name: own, text: 'permit(principal'}]", "policies.0.text", "policy 'own' does not parse, line 1"),
    gates("an invariant that does not compile", "invariants: [{stage: finalize, name: own, expression: 'size(payload', message: No.}]", "invariants.0.expression", "does not compile"),
    Row("a missing price", "    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n", "", "models.0.price", ("no price is known for 'script'", "give price")),
    cell("an override laxer than its requirement without a reason", "plan_malformed", "batch", "{rungs: [{reaction: replan, times: 3}, {reaction: abort}]}", "at most 2 are allowed", NO_REASON),
    cell("an override laxer than its requirement without a reason", "provider_failure", "high_stakes", "{rungs: [{reaction: fallback_model, times: 1}, {reaction: escalate}]}", "not allowed in high-stakes", NO_REASON),
    limits("an override laxer than its requirement without a reason", "limits: {replans_per_stage: 3}", "limits.replans_per_stage", "at most 2 are allowed", "`deviation`"),
    Row("a cost budget", POLICY, "policy: {}\n", "policy.budget", ("is missing", "give it a value")),
    Row("a cost budget", "{run_usd_micros: 1000000}", "{run_usd_micros: 0}", "policy.budget.run_usd_micros", ("every call would be refused", "give a cap in micro-dollars")),
    limits("a hop budget", "limits: {hops: null}", "limits.hops", "is empty"),
    limits("a recursion budget", "limits: {recursion: null}", "limits.recursion", "is empty"),
    limits("a retry budget", "retry: null", "retry", "is empty"),
    limits("a retry budget", "retry: {bucket: 0}", "retry.bucket", "at least 1"),
    limits("a timeout budget", "deadlines: {batch: {stage_s: 10, run_s: 20}}", "deadlines.batch.call_s", "is missing", "give it a value"),
    Row("gates on each stage", "policy:\n", "gates: null\npolicy:\n", "gates", ("is empty",)),
    gates("gates on each stage", "guardrails: [{places: [fan_outt], rules: [credentials]}]", "guardrails.0.places.0", "'fan_outt'", "plan, fan_out"),
    limits("loop detection on", "loop_detector: {detectors: []}", "loop_detector", "which would switch loop detection off", "name at least one"),
    limits("loop detection on", "loop_detector: null", "loop_detector", "is empty"),
    limits("deadlock detection on", "deadlock_monitor: null", "deadlock_monitor", "is empty"),
    limits("deadlock detection on", "deadlock_monitor: {window_moves: 0}", "deadlock_monitor.window_moves", "at least 6"),
    limits("deadlock detection on", "deadlock_monitor: {brief_chars: 100000}", "deadlock_monitor.brief_chars", "at most 1000"),
    limits("a stall that cannot be told from a call", "deadlines: {batch: {call_s: 50, stage_s: 60, run_s: 90}}", "deadlines.batch.call_s", "30 s without an event are taken for a stall", "policy.stall_watchdog.after_s"),
    Row("an escalation path with someone in it", "reviewers: [owner]", "reviewers: []", "reviewers", ("goes to a person", "name users or roles who answer")),
    Row("an escalation path with someone in it", "reviewers: [owner]", "reviewers: ['']", "reviewers.0", ("is empty",)),
    cell("an escalation path with someone in it", "cost_overrun", "batch", "{rungs: [{reaction: escalate, role: legal}]}", "asks for 'legal'", "auditor, editor, finance, operator, owner, reader, reviewer, safety, viewer", inner=".rungs.0.role"),
    tool("a compensation, or irreversible, for each mutating tool", f"effect: mutating, {OBJECT}", ".compensation", "name the tool that undoes it, or declare it irreversible"),
    tool("a compensation, or irreversible, for each mutating tool", f"effect: mutating, compensation: undo, {OBJECT}", ".compensation", "no tool is named 'undo'"),
    tool("a compensation, or irreversible, for each mutating tool", f"effect: irreversible, approval: waived, {OBJECT}", ".deviation", "waives the approval", "give a `deviation`"),
)  # fmt: skip
ASKED = (
    *("a safe fallback without a static answer", "an unknown preset", "a negative limit", "a limit of zero", "a threshold above its window"),
    *("a ladder without an unbounded end", "an unknown mechanism", "a pattern that would not end", "a policy that does not parse", "a missing price"),
    *("an override laxer than its requirement without a reason", "a hop budget", "a recursion budget", "a retry budget", "a timeout budget"),
    *("a cost budget", "gates on each stage", "loop detection on", "deadlock detection on", "an escalation path with someone in it"),
    "a compensation, or irreversible, for each mutating tool",
)  # fmt: skip
"""What has to be refused, in the order in which it is asked for."""


def test_every_sentence_has_its_row():
    assert set(ASKED) <= {row.sentence for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.sentence}-{row.path}")
def test_it_is_refused_with_its_line_its_field_and_the_reason(actor, tmp_path, row):
    source = SMALL.replace("\nsafe_fallback: This cannot be answered here.", "")
    assert source.count(row.old) == 1
    text = source.replace(row.old, row.new)
    file = tmp_path / "own.yaml"
    file.write_text(text)
    done = command("fabric", "publish", str(file))
    assert (done.code, done.out) == (2, "")
    found = re.search(rf"own\.yaml, line (\d+), column (\d+), {re.escape(row.path)}[\w.]*: ", done.err)
    assert found, done.err
    assert all(word in done.err for word in row.words), done.err
    line = text.splitlines()[int(found[1]) - 1][int(found[2]) - 1 :]
    named = [part for part in row.path.split(".") if not part.isdecimal()]
    around = "\n".join(text.splitlines()[max(0, int(found[1]) - 2) : int(found[1])])
    assert line
    assert any(part in around for part in named[-2:]) or row.path.startswith("tools"), (found[0], around)
    assert not Fabric.objects.exists()
    assert not Revision.objects.exists()


def test_the_fabric_that_is_broken_here_is_good_and_says_that_it_will_surface(actor, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(SMALL.replace("\nsafe_fallback: This cannot be answered here.", ""))
    done = command("fabric", "publish", str(file))
    assert done.code == 0
    assert done.err == (
        "note: own.yaml, line 1, column 1, safe_fallback: is not given, so unsafe_output in tier interactive ends the run, or its branch, as failed: "
        "the caller of a failed run reads why and gets a partial result at most; give a text where callers need one\n"
    )
