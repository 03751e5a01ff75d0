"""Whole runs against every scenario of the scripted endpoint, over real HTTP, in each protocol: what has one meaning is read, and all else ends with its cause."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from fabric.runtime.ports.journal import Document
from fabric.services.fabrics.revisions import fabric_publish
from simulator.endpoint import ScriptedEndpoint
from simulator.endpoint.player import PLAYS, Playing
from tests.fabric.composition.installation import Installation, installation
from tests.sets import SET, sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

FABRIC = """\
name: {name}
title: One worker under a fixed plan
models:
  - name: odd
    provider: {provider}
    model: {model}
    base_url: {url}
    options: {{{options}}}
    price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
tools: [{{name: search_documents}}]
agents: [{{name: worker, model: odd, answers: text, instructions: Work., tools: [search_documents]}}]
topology: {{workers: [worker], plan: {{briefs: [{{agent: worker, title: It, instructions: Do it.}}], exit_criteria: [Done.]}}}}
policy:
  budget: {{run_usd_micros: 100000000}}
  deadlines: {{interactive: {{call_s: 20, stage_s: 60, run_s: 90}}}}
  retry: {{base_s: 0.05, cap_s: 0.1}}
decision_table:
  provider_failure:
    interactive: {{rungs: [{{reaction: retry, times: 2}}, {{reaction: surface}}]}}
reviewers: [owner]
"""
"""It waits for no breaker: an endpoint that plays one scenario is not well after 30 seconds either."""
DOCUMENT = Document("parts.md", "part 1, part 2 and part 3 of the old record about lighthouse keepers")
PROTOCOLS = {
    "chat": ("openai", "m", "/v1", ""),
    "responses": ("openai", "m", "/v1", "api: responses"),
    "anthropic": ("anthropic", "claude-x", "", ""),
    "google": ("google", "gemini-x", "", ""),
}
NEVER_END = {"hang", "trickle", "stall", "slow"}
"""They end with the call's deadline, which ``test_real_http`` waits for."""
AT_ONCE = 12
REFUSE = ("status_", "limit_", "retry_after_", "quota", "error_", "tool_loop")
"""How the names begin of those that refuse, or never come to an answer."""
OTHERS = frozenset(
    """echo retry_after rate_limit unavailable flaky bad_key unknown_model not_found no_schema context_length dropped_stream hang_up cut_stream html
    nothing cut_json empty off_schema malformed credential ungrounded unsure bad_plan supervisor_stuck unknown_tool bad_arguments flood
    cost_spike_tokens spender spender_slow spawning handoff_cycle handoff_cycle_of_3 think_open reasoning_only finish_length finish_content_filter missing_finish no_choices changing_form
    two_documents deep_json_10000 bare_text other_form login_page response_failed refused_answer blocked_prompt no_parts cut_after
    drop_after no_done broken_event strict_fields strict_gemma no_tools max_tokens""".split()  # noqa: SIM905
)
"""Those that misbehave so that no answer is read, or not in every protocol, at once and streamed."""
READ = frozenset(name for name in PLAYS if not name.startswith(REFUSE)) - OTHERS - NEVER_END
"""Each of them comes to its answer, in every protocol, at once and streamed."""
SAYS = {
    "quota": "quota or credit is used up",
    "html": "a web page instead of JSON",
    "login_page": "a web page instead of JSON",
    "empty": "the answer is empty",
    "think_open": "the answer holds only what you thought",
    "finish_length": "the answer was cut at",
    "finish_content_filter": "content filter withheld",
    "unknown_tool": "there is no tool 'teleport'",
    "bad_arguments": "the arguments are not a JSON object",
    "limit_as_server_error": "asks for fewer requests (HTTP 429)",
    "retry_after_far": "asks for fewer requests (HTTP 429)",
    "max_tokens": "max_tokens_field: max_completion_tokens",
    "strict_gemma": "system_role: user",
    "strict_fields": "reasoning_back: never",
    "no_tools": "tool_calls: false",
    "bad_key": "refused the key",
    "status_402": "quota or credit is used up",
    "status_413": "the prompt is longer",
}
"""What the reason of those that cannot be read says."""


def test_the_tables_name_scenarios():
    assert set(PLAYS) >= READ
    assert set(SAYS) <= set(PLAYS) - READ


def published(site: Installation, name: str, protocol: str, endpoint: ScriptedEndpoint, *, stream: bool) -> str:
    provider, model, base, option = PROTOCOLS[protocol]
    options = ", ".join(filter(None, (option, "stream: true" if stream else "")))
    url = f"http://{endpoint.authority}{base}"
    source = FABRIC.format(name=name, provider=provider, model=model, url=url, options=options)
    return fabric_publish(actor=site.actor, source=source).name


def rows_of(site: Installation, protocol: str, endpoints: Any, *, stream: bool) -> dict[str, Any]:
    """A run of each scenario, a few at a time."""
    names = list(endpoints)
    rows: dict[str, Any] = {}
    for at in range(0, len(names), AT_ONCE):
        runs = {}
        for name in names[at : at + AT_ONCE]:
            fabric = published(site, f"odd-{name.replace('_', '-')}", protocol, endpoints[name], stream=stream)
            runs[name] = site.start(fabric, "Which part is the last?", (DOCUMENT,))
        rows |= {name: site.rest(run, 90) for name, run in runs.items()}
    return rows


WAYS = [("chat", False), ("chat", True), ("responses", True), ("anthropic", True), ("google", False)]
"""The protocols, and whether an answer is streamed."""
EACH = 3
"""The full set meets a scenario in one of so many of its ways; the nightly set, and the official clients, in all."""


def met(name: str) -> list[tuple[str, bool]]:
    """The ways in which a scenario is met in this run: one at least."""
    ways = [way for way in WAYS if way[0] in PLAYS[name].protocols]
    return sample(ways, min(EACH, len(ways)), name)


def test_every_scenario_is_met_and_in_each_of_its_ways_in_the_nightly_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(PLAYS) - NEVER_END:
        monkeypatch.setenv(SET, "full")
        assert met(name), name
        monkeypatch.setenv(SET, "nightly")
        assert met(name) == [way for way in WAYS if way[0] in PLAYS[name].protocols], name


@pytest.mark.parametrize("way", WAYS, ids=lambda one: f"{one[0]}-{'streamed' if one[1] else 'at once'}")
def test_every_scenario_ends_as_it_should(settings: Any, way: tuple[str, bool]) -> None:
    settings.FABRIC_MODEL_URL = ""
    protocol, stream = way
    names = [name for name in PLAYS if name not in NEVER_END and way in met(name)]
    with ExitStack() as stack:
        endpoints = {name: stack.enter_context(ScriptedEndpoint(Playing(PLAYS[name]).reply)) for name in names}
        settings.FABRIC_ALLOWED_HOSTS = tuple(one.authority for one in endpoints.values())
        site = stack.enter_context(installation())
        rows = rows_of(site, protocol, endpoints, stream=stream)
    wrong = [
        f"{name}: {row.state}: {row.reason}" for name, row in rows.items() if name in READ and row.state != "completed"
    ]
    wrong += [f"{name}: {row.reason}" for name, row in rows.items() if "adapter failed" in (row.reason or "")]
    wrong += [
        f"{name}: {row.state}: {row.reason}"
        for name, row in rows.items()
        if name in SAYS and (row.state == "completed" or SAYS[name] not in row.reason)
    ]
    assert wrong == []
