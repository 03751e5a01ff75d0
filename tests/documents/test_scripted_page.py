"""The page about fabrics without a model is made of the tables of scripted agents, and its example is published."""

from __future__ import annotations

import re

import pytest

from console.launch.processes.data_directory import ROOT
from fabric.services.fabrics.yaml.document import fabric_read
from simulator.agents.option_table import OPTIONS, SCRIPT_WORDS
from simulator.agents.script import SCRIPTS
from simulator.agents.streams import OPTION
from tests.documents.written import REFERENCE, cell, hold

EXAMPLE = """\
name: two-tries
title: Two tries
description: Its leader is refused twice, and its searcher makes one call again and again.
models:
  - name: played
    provider: scripted
    price: {input_usd_per_mtok: 3, output_usd_per_mtok: 15}
    options:
      delay_s: 1
      agents:
        leader: {fail: {cause: rate_limit, times: 2, retry_after_s: 1}}
        searcher: {script: tool_loop, slips: 3}
tools:
  - name: search_documents
agents:
  - {name: leader, model: played, instructions: Plan.}
  - {name: searcher, model: played, instructions: Search., tools: [search_documents]}
topology: {planner: leader, workers: [searcher]}
policy:
  budget: {run_usd_micros: 1000000}
reviewers: [owner]
"""
READS = re.compile(r"(?:\boptions\.get\(|\boptions\[)\"([a-z_]+)\"")


def rows(table) -> str:
    return "\n".join(f"| `{name}` | {cell(said)} |" for name, said in table.items())


def test_the_page_is_made_of_the_tables() -> None:
    made = f"""# Fabrics without a model

A model with `provider: scripted` is no model: the program answers from the request alone, always alike. It needs no
key and no network. Its price is the one that you write, and nothing is billed. The options of the model say what its
agents do, so you can try each protection. The sample *First look* is made so.

## Options

| option | meaning |
|---|---|
{rows(OPTIONS)}

## Scripts

| script | meaning |
|---|---|
{rows(SCRIPT_WORDS)}

A cause of `fail` is one of [reasons.md](reasons.md), such as `rate_limit`, `server_error`, `timeout` or `auth`.

## Example

```yaml
{EXAMPLE}```
"""
    hold(REFERENCE / "scripted.md", made)


def test_each_option_that_is_read_has_its_words_and_each_script_too() -> None:
    read = {OPTION}
    for path in (ROOT / "simulator" / "agents").glob("*.py"):
        read |= set(READS.findall(path.read_text()))
    assert sorted(read) == sorted(OPTIONS)
    assert sorted(SCRIPTS) == sorted(SCRIPT_WORDS)


@pytest.mark.parametrize("name", ["rate_limit", "server_error", "timeout", "auth"])
def test_a_named_cause_stands_on_the_page_of_reasons(name) -> None:
    assert f"`{name}`" in (REFERENCE / "reasons.md").read_text()


def test_the_example_can_be_read() -> None:
    assert fabric_read(EXAMPLE).spec.models[0].provider == "scripted"
