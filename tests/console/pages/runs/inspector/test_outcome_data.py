"""The data of an outcome on its run's page."""

from __future__ import annotations

from fabric.selectors.runs.lookup import outcome_seq
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.pages.runs.test_page import shown
from tests.fabric.services.world import TYPED, ran


def test_the_outcome_shows_its_data_as_a_tree_that_opens_what_is_not_there_at_once(browser, actor):
    fabric_publish(actor=actor, source=TYPED)
    run_id = ran(actor, "typed").id
    page = shown(browser, run_id).partition('id="panel-outcome"')[2]
    tree = page.partition("Data</h3>")[2].partition("</section>")[0]
    for told in ('data-path="/output/data"', '<span class="jk">total</span><span class="jv">3</span>', "rise"):
        assert told in tree, told
    seq = outcome_seq(actor, run_id)
    children = browser.get(f"/runs/{run_id}/events/{seq}/json?path=/output/data/lines", HTTP_HX_REQUEST="true")
    assert children.status_code == 200
    assert children.content.decode().count("data-k=") == 2


def test_an_outcome_without_data_says_nothing_of_it(browser, actor, small):
    assert "Data</h3>" not in shown(browser, ran(actor, small).id)
