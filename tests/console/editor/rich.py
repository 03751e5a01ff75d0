"""Fabrics for the parts of the editor: one in which every kind of check is filled in, a fixed plan, and drafts that are none."""

from __future__ import annotations

from pathlib import Path

import fabric

RICH = """\
name: rich
title: Contract review with every check
description: Two readers, a critic at each turn, and a gate of every kind.
example: What does the supplier owe us, and by when?
models:
  - {name: script, provider: scripted, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
tools:
  - {name: read_document}
  - {name: search_documents}
agents:
  - {name: planner, model: script, instructions: Plan.}
  - {name: second, model: script, instructions: Judge the plan.}
  - {name: reader, model: script, tools: [read_document], instructions: Read.}
  - {name: searcher, model: script, tools: [search_documents, read_document], instructions: Search.}
  - {name: editor, model: script, instructions: Merge.}
  - {name: scorer, model: script, instructions: Score.}
  - {name: writer, model: script, instructions: Write.}
  - {name: auditor, model: script, instructions: Audit.}
  - {name: examiner, model: script, instructions: Examine.}
  - {name: spare, model: script, instructions: Waits.}
topology:
  planner: planner
  plan_critic: second
  workers: [reader, searcher]
  aggregator: editor
  critic: scorer
  finalizer: writer
gates:
  citations: required
  grounding: numbers
  grounding_critic: auditor
  max_outcome_chars: 9000
  unguarded: Its readers ask for their own keys.
  unscreened: It reads its own files alone.
  guardrails:
    - {places: [finalize, arguments], rules: [credentials, personal_data], patterns: [{name: codename, pattern: '(?i)project heron'}]}
    - {rules: [exfiltration_links]}
  invariants:
    - {stage: finalize, name: says-something, expression: size(payload.text) > 0, message: The answer is empty.}
    - {stage: plan, name: two-briefs, expression: size(payload.briefs) >= 2, message: One brief is not enough.}
  policies:
    - {name: open, text: 'permit (principal, action, resource);'}
    - {name: no-search, text: 'forbid (principal, action == Action::"tool", resource == Tool::"search_documents") when { context.tier == "high_stakes" };'}
  oracle:
    - {name: long-enough, expression: size(outcome.text) > 20, message: The answer is too short.}
    - {name: in-record, tool: search_documents, arguments: {query: '{outcome.text}'}, expression: 'answer != null', message: It is not on record.}
    - {name: stands, http: {url: 'https://checks.example/stands/{run.id}', timeout_s: 5}, message: The record says no.}
    - {name: meets-its-criteria, critic: examiner, message: An exit criterion is not met.}
policy:
  budget: {run_usd_micros: 1000000}
  tau: 0.8
  fan_in: {mode: quorum, k: 2}
  goal_gates: {nodes: [plan, reader], retry: replan}
reviewers: [owner]
"""
PLANNED = (Path(fabric.__file__).parent / "samples" / "small-model.yaml").read_text()
BROKEN = (
    "{}",
    "topology: 5\ngates: []\npolicy: no",
    "agents: 3\ntopology: {workers: 4, planner: [1], plan: {briefs: 3}}\ngates: {guardrails: 1, invariants: x, policies: {}, oracle: [1, null]}",
    "agents: [1, {name: 5}, {name: ana}]\ntopology: {workers: [ana, 7, null], plan: {briefs: [1, {agent: 3}], exit_criteria: 5}, critic: ghost}",
    "gates: {guardrails: [1, {rules: 5, places: no, patterns: 3}], oracle: [{tool: 5, critic: [], http: 3}], citations: maybe, max_outcome_chars: many}",
    "gates: {invariants: [{stage: nowhere, expression: 5}], policies: [{name: [], text: {}}], grounding_critic: 4}\npolicy: {tau: high, fan_in: [], goal_gates: 4}",
)
"""Texts that are YAML and no fabric."""
