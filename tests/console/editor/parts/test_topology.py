"""The topology of a draft: the list of its agents, what its buttons do, and the picture beside it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.parts.catalogue import PARTS, part_of
from console.editor.picture import drawn
from console.forms.controls.edits import ButtonProblem
from console.forms.drafts.edits import GROUND, changes_in
from console.forms.drafts.fields import named_in
from console.forms.drafts.shape import shape_of
from console.forms.drafts.variants import FORMS, form_at, idle
from console.topologies.fabrics import topology_svg
from fabric.core.spec.fabric import FabricSpec
from fabric.services.drafts.changes import draft_begin
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import owned, seen
from tests.console.editor.rich import BROKEN, PLANNED, RICH

PART = PARTS["topology"]
SOURCES = {path.stem: path.read_text() for path in sorted(SAMPLES.glob("*.yaml"))} | {"rich": RICH}


def page(text: str) -> str:
    found = seen(text)
    return render_to_string(PART.template, {**PART.build(found), "editing": found, "part": PART})


def pressed(text: str, button: str) -> Any:
    edits, _ = GROUND.pressed(read_yaml(text).value, button)
    return read_yaml(text_edited(text, edits)).value


def sent(text: str, **fields: str) -> Any:
    data = QueryDict(mutable=True)
    for path, value in fields.items():
        data[f"f.{path.replace('__', '.')}"] = value
    return read_yaml(text_edited(text, changes_in(read_yaml(text).value, data).edits)).value


@pytest.mark.parametrize("source", SOURCES)
def test_each_field_that_it_owns_has_a_control(source: str) -> None:
    html = page(SOURCES[source])
    ids = re.findall(r' id="([^"]+)"', html)
    paths = owned(SOURCES[source], PART.owns)
    assert len(paths) >= 2
    assert [one for one in paths if f"f.{one}" not in ids] == []
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_topology_is_shown_all_the_same(text: str) -> None:
    html = page(text)
    assert 'id="h-roles"' in html
    assert "valid part of the draft" in html


@pytest.mark.parametrize("source", SOURCES)
def test_a_form_sent_as_it_was_shown_changes_nothing(source: str) -> None:
    tree = read_yaml(SOURCES[source]).value
    html = page(SOURCES[source])
    built = PART.build(seen(SOURCES[source]))
    data = QueryDict(mutable=True)
    data["p.topology.workers"] = "1"
    data.setlist("f.topology.workers", [*(row.name for row in built["rows"]), ""])
    for role in (*built["planning"], *built["roles"]):
        data[role.field.name] = role.field.text
    for one in built["fan_in"]:
        data[one.name] = one.text
    assert all(f'name="{name}"' in html for name in data)
    assert changes_in(tree, data).edits == ()


def test_the_picture_is_that_of_the_fabric() -> None:
    found = seen(RICH)
    assert found.spec is not None
    shown = drawn(found.tree, found.spec)
    assert shown.whole
    assert shown.picture == topology_svg(found.spec)
    assert any(link.target == "second" for link in shown.links)


@pytest.mark.parametrize("source", SOURCES)
def test_a_draft_that_is_no_fabric_is_drawn_as_the_fabric_would_be(source: str) -> None:
    found = seen(SOURCES[source])
    broken = seen(re.sub(r"(?m)^title: .*(\n  .*)*", "title: [no, title]", SOURCES[source]))
    assert found.spec is not None
    assert broken.spec is None
    shown = drawn(broken.tree, None)
    assert not shown.whole
    assert shown.left_out == ()
    # What a model is called at its provider is in no YAML where the operator names it: so much may differ.
    assert [(one.source, one.target, one.what) for one in shown.links] == [
        (one.source, one.target, one.what) for one in drawn(found.tree, found.spec).links
    ]


def test_what_is_named_and_not_there_is_left_out_and_told() -> None:
    broken = RICH.replace("critic: scorer", "critic: ghost").replace("[reader, searcher]", "[reader, nobody]")
    shown = drawn(seen(broken).tree, seen(broken).spec)
    assert not shown.whole
    assert shown.left_out == (
        "topology.workers.1 is left out: 'nobody' is no agent of this fabric.",
        "topology.critic is left out: 'ghost' is no agent of this fabric.",
    )
    assert "ghost" not in str(shown.picture)
    assert "reader" in str(shown.picture)


def test_without_a_worker_there_is_nothing_to_draw() -> None:
    shown = drawn(seen("name: x").tree, None)
    assert shown.picture is None
    assert "name at least one agent" in page("name: x")


# -- buttons -----------------------------------------------------------------------------------------------------------


def test_a_fixed_plan_takes_the_planner_s_place_and_gives_it_back() -> None:
    tree = pressed(RICH, "turn topology=plan")
    assert {"planner", "plan_critic"} & set(tree["topology"]) == set()
    assert [one["agent"] for one in tree["topology"]["plan"]["briefs"]] == ["reader", "searcher"]
    planned = text_edited(RICH, GROUND.pressed(read_yaml(RICH).value, "turn topology=plan")[0])
    assert [one.path for one in seen(planned).checked.errors if one.path.startswith("topology")] == []
    back = pressed(planned, "turn topology=planner")
    assert "plan" not in back["topology"]
    assert back["topology"]["planner"] in ("planner", "second", "spare")


@pytest.mark.parametrize("form", FORMS["topology"])
def test_a_form_that_it_has_already_stays_as_it_is(form: str) -> None:
    text = RICH if form == "planner" else PLANNED
    assert form_at(read_yaml(text).value, "topology") == form
    assert GROUND.pressed(read_yaml(text).value, f"turn topology={form}")[0] == []


@pytest.mark.parametrize(
    "button", ["turn topology=circle", "turn gates=plan", "turn policy.tau=1", "turn nothing=plan"]
)
def test_a_form_that_there_is_not_is_refused(button: str) -> None:
    with pytest.raises(ButtonProblem):
        GROUND.pressed(read_yaml(RICH).value, button)


@pytest.mark.parametrize(
    ("button", "workers"),
    [
        ("append topology.workers=spare", ["reader", "searcher", "spare"]),
        ("remove topology.workers.0", ["searcher"]),
        ("down topology.workers.0", ["searcher", "reader"]),
        ("up topology.workers.1", ["searcher", "reader"]),
        ("up topology.workers.0", ["reader", "searcher"]),
    ],
)
def test_workers_come_go_and_move(button: str, workers: list[str]) -> None:
    assert pressed(RICH, button)["topology"]["workers"] == workers


def test_a_worker_is_added_by_the_list_s_last_control() -> None:
    data = QueryDict(mutable=True)
    data["p.topology.workers"] = "1"
    data.setlist("f.topology.workers", ["reader", "searcher", "spare"])
    edited = text_edited(RICH, changes_in(read_yaml(RICH).value, data).edits)
    assert read_yaml(edited).value["topology"]["workers"] == ["reader", "searcher", "spare"]


def test_an_agent_without_a_role_is_listed_and_gets_one() -> None:
    assert idle(read_yaml(RICH).value) == ("spare",)
    html = page(RICH)
    assert "Agents in no role" in html
    offered = re.findall(r'value="((?:set|append) [^"]+)"', html)
    assert offered == ["append topology.workers=spare", "set topology.handover=spare"]
    for button in offered:
        assert idle(pressed(RICH, button)) == ()


def test_briefs_come_go_and_move() -> None:
    briefs = read_yaml(PLANNED).value["topology"]["plan"]["briefs"]
    assert len(briefs) >= 2
    added = pressed(PLANNED, "add topology.plan.briefs")["topology"]["plan"]["briefs"]
    assert added[:-1] == briefs
    assert added[-1]["agent"] == read_yaml(PLANNED).value["topology"]["workers"][0]
    assert pressed(PLANNED, "remove topology.plan.briefs.0")["topology"]["plan"]["briefs"] == briefs[1:]
    moved = pressed(PLANNED, "down topology.plan.briefs.0")["topology"]["plan"]["briefs"]
    assert moved[:2] == [briefs[1], briefs[0]]


def test_a_quorum_brings_its_number_and_takes_it_away() -> None:
    assert GROUND.pressed(read_yaml(RICH).value, "reset policy.fan_in.k")[0] != []
    assert sent(RICH, policy__fan_in__mode="best_effort")["policy"]["fan_in"] == {"mode": "best_effort"}
    plain = RICH.replace("  fan_in: {mode: quorum, k: 2}\n", "")
    assert sent(plain, policy__fan_in__mode="quorum")["policy"]["fan_in"] == {"mode": "quorum", "k": 2}
    assert sent(RICH, policy__fan_in__k="1")["policy"]["fan_in"] == {"mode": "quorum", "k": 1}


def test_goals_are_stages_and_workers_and_go_with_their_agent_s_name() -> None:
    nodes = shape_of("policy.goal_gates.nodes")
    assert nodes is not None
    assert nodes.kind == "picks"
    options = [value for value, _ in seen(RICH).field("policy.goal_gates.nodes").options]
    assert options == ["plan", "fan_out", "fan_in", "validate", "finalize", "reader", "searcher"]
    renamed = sent(RICH, agents__2__name="lawyer")
    assert renamed["policy"]["goal_gates"]["nodes"] == ["plan", "lawyer"]
    assert renamed["topology"]["workers"] == ["lawyer", "searcher"]


@pytest.mark.parametrize("path", ["topology.workers.0", "policy.fan_in.k", "policy.goal_gates.nodes.1", "topology"])
def test_remarks_lead_here(path: str) -> None:
    assert part_of(path).name == "topology"


# -- teams ------------------------------------------------------------------------------------------------------------

LED = SOURCES["research-teams"]


def checked_topology(text: str) -> list[str]:
    return [one.path for one in seen(text).checked.errors if one.path.startswith("topology")]


def test_a_supervisor_becomes_a_hierarchy_whose_first_worker_leads_and_back() -> None:
    data = QueryDict("f.topology.kind=hierarchical")
    text = text_edited(RICH, changes_in(read_yaml(RICH).value, data).edits)
    tree = read_yaml(text).value["topology"]
    assert (tree["kind"], list(tree["teams"])) == ("hierarchical", ["reader"])
    assert tree["teams"]["reader"]["topology"]["workers"] == ["spare"]
    assert checked_topology(text) == []
    back = text_edited(text, changes_in(read_yaml(text).value, QueryDict("f.topology.kind=supervisor")).edits)
    assert "teams" not in read_yaml(back).value["topology"]
    assert checked_topology(back) == []


def test_a_worker_is_given_a_team_and_loses_it() -> None:
    html = page(LED)
    offered = re.findall(r'value="(lead [^"]+)"', html)
    assert offered == [
        f"lead topology.teams.{name}"
        for name in ("librarian", "reader", "searcher", "checker", "clerk", "contracts", "regulation")
    ]
    led = pressed(LED, "lead topology.teams.librarian")["topology"]["teams"]
    assert list(led) == ["analyst", "auditor", "counsel", "librarian"]
    gone = pressed(LED, "remove topology.teams.analyst")["topology"]["teams"]
    assert list(gone) == ["auditor", "counsel"]
    assert GROUND.pressed(read_yaml(LED).value, "lead topology.teams.analyst")[0] == []


def test_a_team_takes_another_kind_with_what_it_can_keep() -> None:
    data = QueryDict("f.topology.teams.auditor.topology.kind=supervisor")
    text = text_edited(LED, changes_in(read_yaml(LED).value, data).edits)
    team = read_yaml(text).value["topology"]["teams"]["auditor"]["topology"]
    assert [one["title"] for one in team["plan"]["briefs"]] == ["Collect", "Check"]
    assert "procedure" not in team
    assert checked_topology(text) == []


def test_a_lead_that_is_called_otherwise_keeps_its_team_and_its_roles_in_it() -> None:
    names = [one["name"] for one in read_yaml(LED).value["agents"]]
    renamed = sent(LED, **{f"agents__{names.index('analyst')}__name": "scout"})["topology"]
    assert renamed["workers"] == ["librarian", "scout", "auditor", "counsel"]
    assert list(renamed["teams"]) == ["auditor", "counsel", "scout"]
    inner = renamed["teams"]["scout"]
    assert (inner["topology"]["planner"], inner["topology"]["aggregator"]) == ("scout", "scout")
    assert inner["run_usd_micros"] == 15000


COUNSEL = "topology.teams.counsel.topology"


def test_a_team_of_peers_says_who_is_first_and_who_passes_on_to_whom() -> None:
    html = page(LED)
    for field in ("first", "passes.clerk", "workers", "aggregator"):
        assert f'name="f.{COUNSEL}.{field}"' in html or f'name="p.{COUNSEL}.{field}"' in html, field
    assert "team of counsel: peer handoff, at most 5 hops" in html


def test_a_team_becomes_a_graph_that_can_be_published_and_has_its_rules_here() -> None:
    data = QueryDict(f"f.{COUNSEL}.kind=graph")
    text = text_edited(LED, changes_in(read_yaml(LED).value, data).edits)
    team = read_yaml(text).value["topology"]["teams"]["counsel"]["topology"]
    assert (team["kind"], team["initial_speaker"], len(team["transitions"])) == ("graph", "clerk", 3)
    assert "passes" not in team
    assert checked_topology(text) == []
    html = page(text)
    assert "If clerk spoke, contracts speaks next." in html
    assert "team of counsel: graph, arrows by their rules" in html
    assert len(re.findall(rf'id="f\.{COUNSEL}\.max_turns"', html)) == 1
    longer = pressed(text, f"add {COUNSEL}.transitions")["topology"]["teams"]["counsel"]["topology"]["transitions"]
    assert longer[-1]["then"] == {"kind": "terminate", "reason": "done"}
    path = f"{COUNSEL}.transitions.0.then.agent".replace(".", "__")
    changed = sent(text, **{path: "regulation"})["topology"]["teams"]["counsel"]["topology"]["transitions"]
    assert changed[0]["then"]["agent"] == "regulation"
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_rules_of_a_team_follow_a_worker_that_is_called_otherwise() -> None:
    data = QueryDict(f"f.{COUNSEL}.kind=graph")
    text = text_edited(LED, changes_in(read_yaml(LED).value, data).edits)
    names = [one["name"] for one in read_yaml(LED).value["agents"]]
    renamed = sent(text, **{f"agents__{names.index('contracts')}__name": "terms"})
    rules = renamed["topology"]["teams"]["counsel"]["topology"]["transitions"]
    assert (rules[0]["then"]["agent"], rules[1]["when"]["agent"]) == ("terms", "terms")


def test_the_tools_of_a_conversation_can_be_picked_where_a_team_has_one() -> None:
    assert "transfer" in named_in(read_yaml(LED).value, "tools")
    assert "finish" not in named_in(read_yaml(LED).value, "tools")
    assert "transfer" not in named_in(read_yaml(RICH).value, "tools")


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("script", [False, True])
def test_the_page_changes_roles_with_and_without_a_script(browser: Any, actor: Any, script: bool) -> None:
    draft_begin(actor=actor, name="rich", text=RICH)
    headers = {"HX-Request": "true"} if script else {}
    answer = browser.post(
        "/fabrics/rich/draft?part=topology",
        {
            "step": "0",
            "page": "p",
            "part": "topology",
            "f.topology.critic": "auditor",
            "do": "remove topology.workers.1",
        },
        headers=headers,
        follow=True,
    )
    html = answer.content.decode()
    assert answer.status_code == 200
    assert '<option value="auditor" selected>' in html
    assert 'id="f.topology.workers.0"' in html
    assert 'id="f.topology.workers.1"' not in html
    assert "auditor" in re.findall(r"<svg class=\"topo\".*?</svg>", html, re.DOTALL)[0]


# -- kinds -------------------------------------------------------------------------------------------------------------

RESEARCH = SOURCES["research-desk"]


def checked(tree: Any) -> FabricSpec:
    """The fabric that a tree is."""
    return FabricSpec.model_validate(tree)


def test_another_kind_keeps_what_it_can_and_is_a_fabric_at_once() -> None:
    fixed = pressed(RESEARCH, "turn topology=plan")
    text = text_edited(RESEARCH, GROUND.pressed(read_yaml(RESEARCH).value, "turn topology=plan")[0])
    procedure = sent(text, topology__kind="sop")
    assert checked(procedure).topology.kind == "sop"
    briefs = [(one["agent"], one["title"], one["instructions"]) for one in fixed["topology"]["plan"]["briefs"]]
    assert [(one["agent"], one["title"], one["instructions"]) for one in procedure["topology"]["procedure"]] == briefs
    assert not {"plan", "planner", "plan_critic"} & set(procedure["topology"])


def test_and_back_again_it_is_planned_as_it_was() -> None:
    fixed = pressed(RESEARCH, "turn topology=plan")
    text = text_edited(RESEARCH, GROUND.pressed(read_yaml(RESEARCH).value, "turn topology=plan")[0])
    data = QueryDict(mutable=True)
    data["f.topology.kind"] = "sop"
    there = text_edited(text, changes_in(read_yaml(text).value, data).edits)
    back = sent(there, topology__kind="supervisor")
    assert checked(back).topology.kind == "supervisor"
    assert back["topology"]["plan"]["briefs"] == fixed["topology"]["plan"]["briefs"]
    assert "procedure" not in back["topology"]


def test_a_kind_that_there_is_not_stays_as_it_was_typed() -> None:
    odd = sent(RESEARCH, topology__kind="swarm")
    assert odd["topology"] == {**read_yaml(RESEARCH).value["topology"], "kind": "swarm"}
    assert 'id="h-roles"' in page(text_edited(RESEARCH, changes_in(read_yaml(RESEARCH).value, _kind("swarm")).edits))


def _kind(kind: str) -> QueryDict:
    data = QueryDict(mutable=True)
    data["f.topology.kind"] = kind
    return data


def test_a_procedure_is_edited_item_by_item() -> None:
    text = text_edited(RESEARCH, changes_in(read_yaml(RESEARCH).value, _kind("sop")).edits)
    html = page(text)
    assert 'id="h-procedure"' in html
    assert "How runs are planned" not in html
    more = pressed(text, "add topology.procedure")
    assert len(more["topology"]["procedure"]) == len(read_yaml(text).value["topology"]["procedure"]) + 1
    reads = sent(text, topology__procedure__1__reads="1")
    assert checked(reads).topology.model_dump()["procedure"][1]["reads"] == (1,)
    odd = sent(text, topology__procedure__1__reads="1, first")
    assert odd["topology"]["procedure"][1]["reads"] == [1, "first"]
