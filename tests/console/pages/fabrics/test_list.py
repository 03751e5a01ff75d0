"""The list of fabrics: what is published, what is only drafted, and how each stands; in a constant number of statements."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fabric.core.people.actor import Actor
from fabric.models import ChangeRequest
from fabric.services.actors import find_actor
from fabric.services.drafts.beginnings import draft_import
from fabric.services.drafts.changes import draft_of_fabric
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL
from tests.people import member, signed_in
from tests.simulator.drills.selectors.test_standings import ONE, OTHER, drilled


def row(browser: Client, name: str) -> str:
    """A fabric's row as words."""
    page = html.unescape(browser.get("/fabrics").content.decode())
    found = next(one for one in re.findall(r"<tr.*?</tr>", page, re.DOTALL) if f"<code>{name}</code>" in one)
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def test_an_empty_list_leads_to_the_templates(browser: Client) -> None:
    page = html.unescape(browser.get("/fabrics").content.decode())
    assert "no draft yet" in page
    assert page.count('href="/fabrics/+new"') == 2


def test_a_fabric_that_is_only_drafted_is_in_the_list(browser: Client, actor: Actor, small: str) -> None:
    draft_import(actor=actor, text=SMALL, name="mine")
    ana = member("ana", "editor")
    draft_import(actor=find_actor(ana), text=SMALL, name="hers")
    assert re.match(r"mine not published yet none yours saved", row(browser, "mine"))
    assert re.match(r"hers not published yet none ana, ", row(browser, "hers"))
    page = browser.get("/fabrics").content.decode()
    assert 'href="/fabrics/mine/draft"' in page
    assert 'href="/fabrics/hers/draft"' not in page


def test_whose_drafts_there_are_and_since_when(browser: Client, actor: Actor, small: str) -> None:
    assert " none " in row(browser, small)
    for name in ("ana", "ben", "cleo", "dora"):
        draft_of_fabric(actor=find_actor(member(name, "editor")), name=small)
    draft_of_fabric(actor=actor, name=small)
    said = row(browser, small)
    assert "yours saved" in said
    assert "ana, " in said
    assert "dora" not in said
    assert "and 1 more" in said


def test_how_its_drills_stand(browser: Client, actor: Actor, small: str) -> None:
    assert "never drilled" in row(browser, small)
    drilled(actor, small)
    assert "24 of 24 pass" in row(browser, small)
    drilled(actor, small, [ONE], "deviated")
    assert "23 of 24 pass 1 deviates" in row(browser, small)
    fabric_publish(actor=actor, source=OTHER)
    assert "23 of 24 pass 1 stale" in row(browser, small)


def test_changes_that_wait_for_a_second_person_are_counted(browser: Client, actor: Actor, small: str) -> None:
    assert "second person" not in row(browser, small)
    for author, state in (("ana", "open"), ("ben", "open"), ("cleo", "rejected")):
        ChangeRequest.objects.create(
            workspace_id=actor.workspace_id, name=small, author=author, text=SMALL, digest="d", state=state, opened_at=datetime.now(UTC)
        )  # fmt: skip
    assert "2 changes wait for a second person" in row(browser, small)


def test_more_fabrics_and_drafts_take_no_more_statements(browser: Client, actor: Actor, small: str) -> None:
    def statements() -> int:
        browser.get("/fabrics")
        with CaptureQueriesContext(connection) as asked:
            assert browser.get("/fabrics").status_code == 200
        return len(asked)

    draft_import(actor=actor, text=SMALL, name="only-a-draft")
    before = statements()
    for n in range(6):
        fabric_publish(actor=actor, source=SMALL.replace("name: small", f"name: small-{n}", 1))
        draft_of_fabric(actor=actor, name=f"small-{n}")
        draft_import(actor=actor, text=SMALL, name=f"only-{n}")
    assert statements() == before


def test_who_may_not_edit_sees_the_list_and_is_told(browser: Client, small: str) -> None:
    page = signed_in(member("vera", "viewer")).get("/fabrics").content.decode()
    assert "This is for" in page
