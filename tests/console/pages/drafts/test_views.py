"""The editor's pages: what a form saves, with a script and without, and what becomes of what cannot be saved."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from fabric.core.people.actor import Actor
from fabric.models import Draft, DraftStep
from fabric.selectors.drafts.lookup import draft_get
from fabric.services.drafts.changes import draft_change, draft_of_fabric
from fabric.services.fabrics.yaml.edits import PutEdit
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.fabric.tools.mcp.worlds import permits, stdio
from tests.people import member, signed_in

WITH = {"HX-Request": "true"}


@pytest.fixture
def address(actor: Actor, small: str) -> str:
    """Of a draft of a published fabric."""
    draft_of_fabric(actor=actor, name=small)
    return f"/fabrics/{small}/draft"


def tree(actor: Actor) -> Any:
    return read_yaml(draft_get(actor, "small").text).value


def sent(browser: Client, address: str, script: bool = False, /, **fields: Any) -> Any:
    step = Draft.objects.get(author="owner").at
    data = {"step": step, "page": "p", "part": "limits", **fields}
    return browser.post(address, data, headers=WITH if script else {})


@pytest.mark.parametrize("script", [False, True], ids=["without a script", "with one"])
def test_a_changed_field_is_saved(browser: Client, actor: Actor, address: str, script: bool) -> None:
    answer = sent(browser, address, script, **{"f.policy.limits.turns": "9"})
    assert tree(actor)["policy"]["limits"]["turns"] == 9
    if script:
        assert answer.status_code == 200
        assert "<html" not in answer.content.decode()
        assert "HX-Reswap" not in answer.headers
    else:
        assert (answer.status_code, answer.headers["Location"]) == (302, f"{address}?part=limits")


def test_it_is_called_what_it_says_whatever_is_wrong_elsewhere(browser: Client, address: str) -> None:
    called = heading(browser, address)
    assert called != "small"
    sent(browser, address, **{"f.policy.limits.turns": "many"})
    assert heading(browser, address) == called
    sent(browser, address, **{"f.title": "x" * 5_000})
    assert heading(browser, address) == "small"


def heading(browser: Client, address: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", browser.get(address).content.decode())
    assert found
    return found[1]


def test_a_kind_chosen_again_before_the_answer_to_the_first_choice_is_the_one_that_stands(
    browser: Client, actor: Actor
) -> None:
    """By keyboard the way to a kind leads through others, each saved; the form that shows is that of the kind before until an answer is there."""
    browser.post("/fabrics/+new", {"template": "routing", "name": "desk"})
    step, rule = Draft.objects.get(name="desk").at, "topology.transitions.1.when"
    for kind in ("any_of", "outcome_is", "from_speaker"):
        sent = {"step": step, "page": "p", "part": "topology", f"f.{rule}.kind": kind}
        assert browser.post("/fabrics/desk/draft", sent, headers=WITH).status_code == 200
    graph = read_yaml(draft_get(actor, "desk").text).value["topology"]
    assert graph["transitions"][1]["when"] == {"kind": "from_speaker", "agent": "router"}


@pytest.fixture
def desk(browser: Client) -> dict[str, Any]:
    """Its draft's page, before any answer to what it sends is there; the fabric has router, billing, shipping, technical, front-office, reviewer, critic."""
    browser.post("/fabrics/+new", {"template": "routing", "name": "desk"})
    return {"step": Draft.objects.get(name="desk").at, "page": "p", "part": "agents"}


def agents(actor: Actor) -> list[str]:
    return [one["name"] for one in read_yaml(draft_get(actor, "desk").text).value["agents"]]


def test_a_button_that_is_pressed_twice_takes_one_thing_out(
    browser: Client, actor: Actor, desk: dict[str, Any]
) -> None:
    before = agents(actor)
    for _ in range(2):
        assert browser.post("/fabrics/desk/draft", {**desk, "do": "remove agents.1"}, headers=WITH).status_code == 200
    assert agents(actor) == [name for name in before if name != "billing"]
    assert browser.post("/fabrics/desk/draft", {**desk, "do": "down agents.2"}, headers=WITH).status_code == 200
    assert agents(actor).index("shipping") == 2


def test_what_is_ticked_after_an_item_was_taken_out_is_ticked_where_it_was_seen(
    browser: Client, actor: Actor, desk: dict[str, Any]
) -> None:
    browser.post("/fabrics/desk/draft", {**desk, "do": "remove agents.1"}, headers=WITH)
    typed = {"f.agents.3.instructions": "Be technical.", "f.agents.1.instructions": "Nobody reads this."}
    assert browser.post("/fabrics/desk/draft", {**desk, **typed}, headers=WITH).status_code == 200
    said = {one["name"]: one["instructions"] for one in read_yaml(draft_get(actor, "desk").text).value["agents"]}
    assert said["technical"] == "Be technical."
    assert "billing" not in said
    assert "Nobody reads this." not in said.values()


def test_what_is_typed_twice_after_an_undo_whose_answer_is_not_there_is_all_saved(
    browser: Client, actor: Actor, desk: dict[str, Any]
) -> None:
    browser.post("/fabrics/desk/draft", {**desk, "f.agents.0.instructions": "Undone."}, headers=WITH)
    shown = {**desk, "step": desk["step"] + 1, "f.agents.0.instructions": "Undone."}
    browser.post("/fabrics/desk/draft/undo", shown, headers=WITH)
    for number in (1, 2):
        sent = {**shown, f"f.agents.{number}.instructions": "Typed."}
        assert browser.post("/fabrics/desk/draft", sent, headers=WITH).status_code == 200
    said = [one["instructions"] for one in read_yaml(draft_get(actor, "desk").text).value["agents"]]
    assert (said[0] != "Undone.", said[1:3]) == (True, ["Typed.", "Typed."])
    assert browser.post("/fabrics/desk/draft/redo", {**desk, "step": desk["step"] + 3}).status_code == 409


@pytest.mark.parametrize("page", ["p", "another"])
def test_a_page_undoes_what_it_sent_before_the_answer_is_there(
    browser: Client, actor: Actor, desk: dict[str, Any], page: str
) -> None:
    """Twice at once, and brought back; what another page has done since it shows itself, a page undoes blindly never."""
    before = draft_get(actor, "desk").text
    for place in ("f.agents.0.instructions", "f.agents.1.instructions"):
        browser.post("/fabrics/desk/draft", {**desk, place: "Typed."}, headers=WITH)
    after = draft_get(actor, "desk").text
    seen = {"step": desk["step"], "page": page, "part": "agents"}
    answers = [browser.post("/fabrics/desk/draft/undo", seen, headers=WITH).status_code for _ in range(2)]
    newest = {**seen, "step": Draft.objects.get(name="desk").last}
    assert (answers, draft_get(actor, "desk").text) == (([200, 200], before) if page == "p" else ([409, 409], after))
    if page == "another":
        answers = [browser.post("/fabrics/desk/draft/undo", newest, headers=WITH).status_code for _ in range(2)]
        assert (answers, draft_get(actor, "desk").text) == ([200, 200], before)
    else:
        seen["step"] += 2
        assert [browser.post("/fabrics/desk/draft/redo", seen, headers=WITH).status_code for _ in range(2)] == [
            200,
            200,
        ]
        assert draft_get(actor, "desk").text == after


def test_what_is_no_number_is_kept_and_said_at_its_field(browser: Client, actor: Actor, address: str) -> None:
    page = sent(browser, address, True, **{"f.policy.limits.turns": "many"}).content.decode()
    assert tree(actor)["policy"]["limits"]["turns"] == "many"
    assert 'value="many"' in page
    assert 'id="e.policy.limits.turns"' in page
    assert re.search(r'href="\?part=limits#f\.policy\.limits\.turns"', page)
    assert "1 error" in page


def test_an_emptied_field_takes_the_default_again_and_leaves_no_trace(
    browser: Client, actor: Actor, address: str
) -> None:
    before = draft_get(actor, "small").text
    sent(browser, address, **{"f.policy.limits.turns": "9"})
    sent(browser, address, **{"f.policy.limits.turns": ""})
    assert draft_get(actor, "small").text == before


def test_a_button_adds_and_the_page_is_drawn_anew(browser: Client, actor: Actor, address: str) -> None:
    count = len(tree(actor)["agents"])
    answer = sent(browser, address, True, part="agents", do="add agents")
    assert answer.headers["HX-Reswap"] == "innerHTML"
    assert [one["name"] for one in tree(actor)["agents"]][count:] == ["agent"]
    sent(browser, address, part="agents", do=f"remove agents.{count}")
    assert len(tree(actor)["agents"]) == count


def test_each_place_that_names_an_agent_goes_with_its_new_name(browser: Client, actor: Actor, address: str) -> None:
    old = tree(actor)["agents"][0]["name"]
    sent(browser, address, part="agents", **{"f.agents.0.name": "renamed"})
    after = tree(actor)
    assert after["agents"][0]["name"] == "renamed"
    roles = after["topology"].values()
    named = [name for one in roles for name in (one if isinstance(one, list) else [one])]
    assert old not in named
    assert "renamed" in named


@pytest.mark.parametrize(
    ("button", "said"),
    [
        ("fly agents", "There is no button"),
        ("add nowhere", "a fabric has no place"),
        ("remove agents.99", "taken away meanwhile"),
        ("add", "a fabric has no place"),
    ],
)
def test_a_button_that_is_none_changes_nothing_and_says_so(
    browser: Client, actor: Actor, address: str, button: str, said: str
) -> None:
    before = draft_get(actor, "small")
    answer = sent(browser, address, do=button)
    assert answer.status_code == 422
    assert said.lower() in answer.content.decode().lower()
    assert draft_get(actor, "small") == before


def test_the_text_is_saved_as_it_is_and_what_is_no_yaml_leaves_only_the_text(
    browser: Client, actor: Actor, address: str
) -> None:
    sent(browser, address, part="yaml", text="name: [unclosed\r\n")
    assert draft_get(actor, "small").text == "name: [unclosed\n"
    page = browser.get(f"{address}?part=agents").content.decode()
    assert 'id="text"' in page
    assert 'id="agents"' not in page
    answer = sent(browser, address, part="agents", do="add agents")
    assert answer.status_code == 409
    assert "mend it in the YAML part" in answer.content.decode()


def test_the_text_as_a_browser_sends_it_back_is_no_change(browser: Client, actor: Actor, address: str) -> None:
    shown = draft_get(actor, "small").text.replace("\n", "\r\n")
    sent(browser, address, part="yaml", text=shown)
    assert DraftStep.objects.count() == 1


def test_undo_and_redo_go_back_and_forth(browser: Client, actor: Actor, address: str) -> None:
    sent(browser, address, **{"f.policy.limits.turns": "9"})
    for act, turns in (("undo", None), ("redo", 9)):
        step = Draft.objects.get().at
        answer = browser.post(f"{address}/{act}", {"step": step, "part": "limits"}, headers=WITH)
        assert answer.status_code == 200
        assert tree(actor)["policy"].get("limits", {}).get("turns") == turns
    answer = browser.post(f"{address}/redo", {"step": Draft.objects.get().at, "part": "limits"})
    assert answer.status_code == 409
    assert "There is nothing to redo" in answer.content.decode()


def test_a_part_that_there_is_not_is_said_with_those_that_there_are(browser: Client, address: str) -> None:
    answer = browser.get(f"{address}?part=nosuch")
    assert answer.status_code == 404
    assert "decision" not in answer.content.decode().lower() or "table" in answer.content.decode()


def test_another_members_draft_is_not_there(address: str) -> None:
    assert signed_in(member("erik", "editor")).get(address).status_code == 404


def test_a_page_costs_the_same_statements_whatever_the_draft_holds(
    browser: Client, actor: Actor, address: str, django_assert_num_queries: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as asked:
            browser.get(f"{address}?part=agents")
        counts.append(len(asked.captured_queries))
        step = draft_get(actor, "small").step
        edits = [PutEdit(("agents", 0, "instructions"), "More."), PutEdit(("title",), "Other")]
        draft_change(actor=actor, name="small", step=step, edits=edits, what="more")
    assert counts[0] == counts[1]
    # PostgreSQL is asked for its clock as well. The workspace's policy is read once.
    assert sum("fabric_workspace_policy" in one["sql"] for one in asked.captured_queries) == 1
    assert counts[0] <= (24 if connection.vendor == "postgresql" else 23)


@pytest.mark.parametrize("script", [False, True], ids=["without a script", "with one"])
def test_a_server_declares_its_tools_by_a_button_and_one_that_may_not_be_asked_is_told(
    browser: Client, actor: Actor, address: str, settings: Any, script: bool
) -> None:
    sent(browser, address, script, do="add mcp_servers")
    names = {"transport": "stdio", "command": stdio().command, "args": "\n".join(stdio().args), "url": ""}
    fields = {f"f.mcp_servers.0.{name}": text for name, text in names.items()}
    refused = sent(browser, address, script, part="tools", do="declare mcp_servers.0", **fields)
    assert refused.status_code == 422
    assert "have the operator add it to FABRIC_MCP_COMMANDS" in refused.content.decode()
    settings.FABRIC_MCP_COMMANDS = permits(stdio()).commands
    answer = sent(browser, address, script, part="tools", do="declare mcp_servers.0", **fields)
    assert answer.status_code == (200 if script else 302)
    assert "server/add" in {tool.get("target") for tool in tree(actor)["tools"]}


@pytest.mark.parametrize("script", [False, True], ids=["without a script", "with one"])
def test_a_row_that_cannot_be_saved_is_refused_and_stays_where_it_was_typed(
    browser: Client, actor: Actor, address: str, script: bool
) -> None:
    sent(browser, address, part="tools", do="add tools")
    path = next(f"tools.{n}.headers_from" for n, one in enumerate(tree(actor)["tools"]) if one.get("kind") == "http")
    rows = {f"p.{path}": "1", f"r.{path}.0.0": "Authorization", f"r.{path}.0.1": "CRM_TOKEN"}
    assert sent(browser, address, script, part="tools", **rows).status_code in (200, 302)
    held = next(one for one in tree(actor)["tools"] if one.get("kind") == "http")
    assert held["headers_from"] == {"Authorization": "CRM_TOKEN"}
    answer = sent(browser, address, script, part="tools", **rows, **{f"r.{path}.1.0": "", f"r.{path}.1.1": "TEAM"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Headers from variables: row 2 has no name: give it one, or empty the row." in page
    assert f'name="r.{path}.1.1" value="TEAM"' in page
    assert next(one for one in tree(actor)["tools"] if one.get("kind") == "http") == held
