"""Drills of a draft on the console: shown as any, named as a draft's, and leading to no revision."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.fabrics.yaml.document import fabric_read
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from simulator.drills.services.drafts import drill_ask_spec
from tests.fabric.services.world import SMALL
from tests.people import member, signed_in

ONE = (FailureType.PROVIDER, Tier.BATCH)
CHANGED = "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: retry, times: 1}, {reaction: abort}]}\n"


def text(response):
    assert response.status_code == 200, response.content[:500]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


@pytest.fixture(params=["small", "brand-new"])
def driven(request, actor, small):
    """The row of a drill of a draft, of a published fabric and of one that is not, that was driven for real."""
    spec = fabric_read(SMALL.replace("name: small", f"name: {request.param}") + CHANGED, origin="draft.yaml").spec
    asked = drill_ask_spec(actor=actor, spec=spec, cells=[ONE], seed=7)
    batch_drill(asked.batch, "h")
    return Drill.objects.get(id=asked.drills[0])


def name_of(row):
    return row.fabric.name.partition(" ")[0]


def test_its_page_says_whose_draft_it_is_and_offers_nothing_that_is_a_revisions(browser, driven):
    page = browser.get(f"/drills/{driven.id}")
    shown = text(page)
    assert f"Drill of {name_of(driven)}, draft of owner" in shown
    assert "retry 1 of 1" in shown
    html = page.content.decode()
    assert f"/fabrics/{name_of(driven)}/" not in html
    assert "Rerun with the same seed" not in shown
    assert 'id="open-cell"' not in html


def test_its_run_opens(browser, driven):
    page = browser.get(f"/runs/{driven.run_id}")
    assert f"{name_of(driven)}, draft of owner" in text(page)


def test_the_lists_name_it_so_and_the_coverage_does_not_count_it(browser, driven):
    shown = text(browser.get("/drills/coverage"))
    assert f"{name_of(driven)}, draft of owner" in shown
    assert "0 of 24 verified for r1" in shown
    assert f"{name_of(driven)}, draft of owner" in text(browser.get("/runs/drills"))


def test_as_a_test_it_has_the_drafts_own_table(browser, driven):
    made = browser.get(f"/drills/{driven.id}/pytest?form=file").content.decode()
    assert f"of {name_of(driven)}, draft of owner, seed 7" in made
    assert "times: 1" in made


def test_the_api_says_whose_draft_it_was(browser, driven):
    told = browser.get(f"/api/v1/drills/{driven.id}").json()
    assert (told["fabric"], told["author"], told["verdict"]) == (name_of(driven), "owner", "pass")


def test_while_it_goes_on_it_is_named_so(browser, driven):
    Drill.objects.filter(id=driven.id).update(status="running", ended_at=None, verdict="")
    for page in ("/drills", f"/drills/{driven.id}"):
        assert f"on {name_of(driven)}, draft of owner, virtual clock" in text(browser.get(page))


def test_who_sees_one_fabric_sees_the_drills_of_its_drafts_and_of_no_others(driven):
    here, elsewhere = (
        signed_in(member(name, f"editor@{at}")) for name, at in (("ana", name_of(driven)), ("ben", "x-*"))
    )
    for path in (f"/drills/{driven.id}", f"/runs/{driven.run_id}"):
        assert f"{name_of(driven)}, draft of owner" in text(here.get(path))
        assert elsewhere.get(path).status_code == 404
    assert "draft of owner" in text(here.get("/runs/drills"))
    assert "draft of owner" not in text(elsewhere.get("/runs/drills"))
    said = here.post(f"/runs/{driven.run_id}/terminate", {"reason": "x"})
    assert (said.status_code, "nothing can be changed" in said.content.decode()) == (409, True)
