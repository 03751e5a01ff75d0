"""The parts of the editor: every place of a fabric is edited in one of them, and each shows whatever a draft holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.draft import Editing, editing
from console.editor.parts.catalogue import PARTS, part_of, remarks
from console.editor.parts.tools import draw_server_field, draw_tool_field
from console.editor.subjects import subject
from console.forms.drafts.edits import changes_in
from console.forms.drafts.fields import spelled
from fabric.core.values.flow import Stage
from fabric.selectors.drafts.lookup import DraftView
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import places

SOURCES = {path.stem: path.read_text() for path in sorted(SAMPLES.glob("*.yaml"))}
SOURCES["mcp-servers"] = f"""{SOURCES["research-desk"]}
mcp_servers:
  - {{name: files, transport: stdio, command: mcp-files, args: [/srv/docs, --quiet], variables: [FILES_KEY]}}
  - {{name: crm, transport: http, url: 'https://crm.example/mcp', headers_from: {{Authorization: CRM}}}}
"""
NO_FABRICS = {
    "nothing": "",
    "a list": "[1, 2]",
    "a text": "hello",
    "lists that are none": "models: 3\ntools: x\nagents: {a: 1}\nmemories: null\ntopology: []\ngates: 5\npolicy: []\n",
    "things that are none": "models: [1, null]\ntools: [[]]\nagents: [x, {name: 5, tools: 3}]\nmemories: [{}]\nmcp_servers: [1, {transport: [x], args: 3}]\n",
    "types that are wrong": "name: 5\ntitle: [x]\ntiers: {default: {}, allowed: x}\npolicy: {budget: 3, limits: {turns: [1]}, humans: 7}\n"
    "decision_table: {provider_failure: 3}\nreviewers: {a: b}\n",
    "no YAML": "name: [unclosed",
    "an alias": "a: &x 1\nb: *x\n",
}


def seen(text: str, base: str = "", **asked: str) -> Editing:
    """A draft with this text."""
    draft = DraftView(
        id="d",
        name="research-desk",
        author="ana",
        step=0,
        text=text,
        base_text=base or text,
        base=1,
        base_id="r",
        published=1,
        published_id="r",
        changed_at=datetime.now(UTC),
    )
    return editing(draft, None, asked=asked)


def drawn(part: str, found: Editing) -> str:
    """A part's page."""
    built: dict[str, Any] = PARTS[part].build(found)
    return render_to_string(PARTS[part].template, {"editing": found, "draft": found.draft, **built})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("sample", SOURCES)
def test_a_part_of_a_sample_is_drawn(part: str, sample: str) -> None:
    assert "<section" in drawn(part, seen(SOURCES[sample]))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", NO_FABRICS)
def test_a_part_of_what_is_no_fabric_is_drawn_all_the_same(part: str, kind: str) -> None:
    found = seen(NO_FABRICS[kind], base=SOURCES["research-desk"])
    assert found.checked.errors
    assert "<section" in drawn(part, found)
    assert all(one.address for one in remarks(found.checked))


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("agents.2.model", "agents"),
        ("models.0.price", "models"),
        ("tools.1.compensation", "tools"),
        ("mcp_servers.0.url", "tools"),
        ("policy.limits.turns", "limits"),
        ("policy.humans.due_s", "people"),
        ("reviewers", "people"),
        ("decision_table.provider_failure.batch.rungs.0", "table"),
        ("policy.stages.plan.decision_table.provider_failure.batch", "table"),
        ("policy.stages.plan.tau", "limits"),
        ("", "yaml"),
        ("nosuch", "yaml"),
    ],
)
def test_a_remark_leads_to_the_part_that_edits_its_path(path: str, part: str) -> None:
    assert part_of(path).name == part


@pytest.mark.parametrize("sample", SOURCES)
@pytest.mark.parametrize("part", ["basics", "agents", "models", "tools", "people", "limits"])
def test_a_part_has_a_control_for_everything_that_it_owns(part: str, sample: str) -> None:
    found = seen(SOURCES[sample])
    html = drawn(part, found)
    lacking = []
    for shape in places():
        if "*" in shape.place or shape.kind in ("group", "items", "table") or part_of(shape.place).name != part:
            continue
        if f'id="f.{shape.place}"' not in html and shape.place not in ELSEWHERE:
            lacking.append(shape.place)
    for listed in ("agents", "models", "tools", "mcp_servers", "memories"):
        for n in range(found.count(listed) if part_of(listed).name == part else 0):
            inner = (one.place.split(".", 2)[2] for one in places(listed) if one.place.count(".") > 1)
            names = {
                name for name in inner if name not in ("price", "persona") and is_read(found, f"{listed}.{n}", name)
            }
            lacking += [f"{listed}.{n}.{name}" for name in names if f'id="f.{listed}.{n}.{name}"' not in html]
    assert lacking == []


def is_read(found: Editing, path: str, name: str) -> bool:
    """Return True for a field that the kind of its thing reads, or that is written."""
    draw = {"tools": draw_tool_field, "mcp_servers": draw_server_field}.get(path.partition(".")[0])
    return draw is None or draw(found.at(path), found.field(f"{path}.{name}")) is not None


ELSEWHERE = {
    "name",
    "policy.tau",
    "policy.fan_in.mode",
    "policy.fan_in.k",
    "policy.goal_gates.nodes",
    "policy.goal_gates.retry",
}
"""Places that other parts show, and the name, which a draft keeps."""


RICH = """
policy:
  limits:
    max_visits: {plan: 2}
  stages:
    validate: {tau: 0.9, limits: {turns: 4}, deadlines: {batch: {call_s: 5}}}
  retry_layers:
    preset: fabro
    edges: [{failure_class: transient_infra, to: replan}]
    stages: {fan_out: {retry_policy: standard, edges: [{to: handover}]}}
  breakers:
    - {preset: semantic, scope: agent, only: [reader]}
    - {scope: provider, signals: [{names: [server_error], mode: consecutive, threshold: 5}]}
"""


def test_groups_within_groups_are_edited_down_to_their_leaves() -> None:
    html = drawn("limits", seen(RICH))
    for path in (
        "policy.limits.max_visits.plan",
        "policy.limits.max_visits.finalize",
        "policy.retry_layers.preset",
        "policy.retry_layers.edges.0.to",
        "policy.retry_layers.stages.fan_out.retry_policy",
        "policy.retry_layers.stages.fan_out.edges.0.to",
        "policy.stages.validate.tau",
        "policy.stages.validate.deadlines.batch.call_s",
        "policy.stages.validate.loop_detector.identical_threshold",
        "policy.stages.fan_out.limits.hops",
        "policy.stages.plan.progress.supervisor_turns",
        "policy.breakers.0.preset",
        "policy.breakers.0.only",
        "policy.breakers.1.signals.0.names",
        "policy.breakers.1.signals.0.threshold",
    ):
        assert f'id="f.{path}"' in html, path


def test_a_stage_has_no_control_for_what_means_nothing_in_it() -> None:
    html = drawn("limits", seen(RICH))
    for path in ("validate.limits.hops", "plan.progress.agent_turns", "plan.deadlock_monitor.similarity"):
        assert f'id="f.policy.stages.{path}"' not in html, path
    assert "policy.stages.plan.decision_table" not in html, "the part of the table has them"


def test_a_stage_is_shown_what_the_fabric_says() -> None:
    found = seen(RICH.replace("  limits:", "  tau: 0.6\n  limits:\n    hops: 9"))
    assert found.field("policy.stages.plan.tau").placeholder == "0.6"
    assert found.field("policy.stages.fan_out.limits.hops").placeholder == "9"
    assert found.field("policy.stages.plan.deadlines.batch.stage_s").placeholder == "3600"
    assert found.field("policy.stages.plan.limits.turns").shape.label == "Model turns of a step"


STRAYED = """
policy:
  stages:
    fan_in: {limits: {hops: 3}, tau: high}
"""


def test_what_is_written_in_a_stage_and_means_nothing_there_is_shown_with_what_is_wrong() -> None:
    found = seen(STRAYED)
    html = drawn("limits", found)
    assert 'id="f.policy.stages.fan_in.limits.hops"' in html, "who cannot see it cannot take it out"
    assert 'id="f.policy.stages.plan.limits.hops"' not in html
    tau = found.field("policy.stages.fan_in.tau")
    assert (tau.text, tau.wrong) == ("high", True)
    about = unescape(html[html.index('id="e.policy.stages.fan_in.tau"') :])
    assert tau.findings[0].sentence in about[:300]
    [told] = [one for one in remarks(found.checked) if one.finding.path == "policy.stages.fan_in.tau"]
    assert (told.part, told.address) == ("Budgets and limits", "?part=limits#f.policy.stages.fan_in.tau")


def test_a_stage_that_says_something_is_open_and_the_others_say_whose_word_holds() -> None:
    html = drawn("limits", seen(RICH))
    found = re.findall(
        r'<details class="nest-key" id="k\.policy\.stages\.(\w+)"( open)?><summary>(.*?)</summary>', html
    )
    summaries = {stage: (bool(opened), said) for stage, opened, said in found}
    assert set(summaries) == set(Stage)
    assert summaries.pop("validate") == (True, "Validate")
    assert summaries["fan_out"] == (False, 'Fan out <span class="muted">as the fabric says</span>')
    assert {opened for opened, _ in summaries.values()} == {False}


def test_a_number_of_each_stage_is_called_by_the_stage() -> None:
    html = drawn("limits", seen(RICH))
    label = html[html.index('for="f.policy.limits.max_visits.fan_in"') :]
    assert label[label.index(">") + 1 :].lstrip().startswith("Fan in")


def typed(text: str, **fields: str) -> str:
    """A text after these fields of the stage that validates were typed, as the page sends them."""
    sent = "&".join(f"f.policy.stages.validate.{path.replace('__', '.')}={value}" for path, value in fields.items())
    tree = read_yaml(text).value
    return text_edited(text, changes_in(tree, QueryDict(sent)).edits)


def test_a_stages_field_is_written_where_it_belongs_and_goes_with_its_empty_groups() -> None:
    given = read_yaml(typed("name: x\n", limits__turns="4", tau="0.5")).value
    assert given == {"name": "x", "policy": {"stages": {"validate": {"limits": {"turns": 4}, "tau": 0.5}}}}
    one = typed(typed("name: x\n", limits__turns="4", tau="0.5"), limits__turns="")
    assert read_yaml(one).value == {"name": "x", "policy": {"stages": {"validate": {"tau": 0.5}}}}
    assert read_yaml(typed(one, tau="")).value == {"name": "x", "policy": {}}
    assert typed("name: x\n", tau="") == "name: x\n"
    assert read_yaml(typed("name: x\n", tau="high")).value["policy"]["stages"]["validate"]["tau"] == "high"


def test_a_preset_says_what_holds_where_a_breaker_says_nothing() -> None:
    found = seen(RICH)
    assert not found.field("policy.breakers.0.signals").missing
    assert found.field("policy.breakers.0.cooldown_s").placeholder == "60"
    assert found.field("policy.breakers.0.scope").given == "agent"


SUBJECTS = {
    "": "",
    "models": "Models",
    "gates.max_outcome_chars": "Longest answer",
    "policy.limits.turns": "Model turns of a step",
    "agents.0.tools": "planner · Tools",
    "agents.0": "planner",
    "agents.99.tools": "Agents 100 · Tools",
    "decision_table.cost_overrun.batch": "cost overrun · long-running batch",
    "gates.no_such_thing": "",
}


@pytest.mark.parametrize("path", SUBJECTS)
def test_a_problem_names_what_it_is_about_as_the_forms_do(path: str) -> None:
    tree = seen(SOURCES["research-desk"]).tree
    assert subject(path, tree) == SUBJECTS[path]


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (86_400, "s", "1 d"),
        (28_800.0, "s", "8 h"),
        (119, "s", ""),
        (50_000_000, "bytes", "50,000,000"),
        (9_999, "bytes", ""),
        (12_000_000, "USD", ""),
        (float("nan"), "s", ""),
        (float("inf"), "s", ""),
        (10**400, "s", ""),
        (True, "s", ""),
        ("many", "s", ""),
        (None, "s", ""),
    ],
)
def test_large_numbers_are_spelled_out(value: Any, unit: str, said: str) -> None:
    assert spelled(value, unit) == said
