"""Reading fabrics: one query a list, names told when one is not found."""

import json

import pytest

from fabric.core.values.taxonomy import Tier
from fabric.models import Revision
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabric_get, fabrics_list, is_scripted, revision_get, revision_spec, run_cap
from fabric.selectors.overview.success_cost import fabric_activities
from fabric.selectors.overview.tiles import Tile
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.selectors.overview.test_tiles import plans_of
from tests.fabric.selectors.rows import NOW, run_row
from tests.fabric.services.world import SMALL


def test_a_list_is_one_query(actor, small, doubtful, django_assert_num_queries):
    with django_assert_num_queries(1):
        views = fabrics_list(actor)
    assert [view.name for view in views] == ["doubtful", "small"]
    view = views[1]
    assert (view.title, view.example) == ("A small fabric", "What do the notes say?")
    assert (view.tier, view.tiers) == (Tier.INTERACTIVE, tuple(Tier))
    assert fabric_get(actor, "small") == view


def test_a_name_that_is_not_there_is_answered_with_those_that_are(actor, small, doubtful):
    with pytest.raises(Refused) as caught:
        fabric_get(actor, "large")
    assert caught.value.message == "no fabric is named 'large'; there are: small, doubtful"
    assert (caught.value.code, caught.value.field) == ("not_found", "fabric")


def test_a_list_outlives_a_spec_that_would_no_longer_be_accepted(actor, small):
    revision = Revision.objects.get()
    spec = json.loads(revision.spec) | {"left_over": True}
    Revision.objects.update(spec=json.dumps(spec))
    assert [view.name for view in fabrics_list(actor)] == ["small"]


def test_there_is_no_revision_of_that_id(db):
    with pytest.raises(Refused, match="there is no revision 'x'"):
        revision_spec("x")


# -- one version -------------------------------------------------------------------------------------------------------


@pytest.fixture
def twice(actor, small) -> str:
    """A fabric with two versions."""
    fabric_publish(actor=actor, source=SMALL.replace("instructions: Read.", "instructions: Read twice."))
    return small


def test_a_version_stays_what_it_was(actor, twice):
    first, second = revision_get(actor, twice, 1), revision_get(actor, twice)
    assert (first.number, first.current, second.number, second.current) == (1, False, 2, True)
    assert (first.spec.agent("reader").instructions, second.spec.agent("reader").instructions) == (
        "Read.",
        "Read twice.",
    )
    assert first.fabric == second.fabric
    assert first.digest != second.digest


@pytest.mark.parametrize("number", [0, 3, 2**31, 10**30])
def test_a_version_that_there_is_not(actor, twice, number):
    with pytest.raises(Refused, match="the newest is r2") as caught:
        revision_get(actor, twice, number)
    assert caught.value.code == "not_found"


def test_a_fabric_of_others_is_not_there(stranger, small):
    with pytest.raises(Refused, match="none is published yet"):
        revision_get(stranger, small)


def test_a_version_that_is_not_read_any_more_is_a_sentence(actor, twice):
    Revision.objects.filter(number=1).update(spec='{"name": "small", "left_over": true}')
    with pytest.raises(Refused, match="publish it again"):
        revision_get(actor, twice, 1)
    assert revision_get(actor, twice).number == 2


def test_what_a_run_may_spend_and_whether_it_needs_a_model(actor, small):
    revision = revision_get(actor, small)
    assert (run_cap(revision.fabric.revision_id), is_scripted(revision.fabric.revision_id)) == (1_000_000, True)
    assert (run_cap("nothing"), is_scripted("nothing")) == (0, False)


# -- what became of its runs -------------------------------------------------------------------------------------------


def test_activity_by_fabric(actor, small, doubtful):
    run_row(actor, small, "completed", asked=9, ended=8)
    run_row(actor, small, "completed", asked=9, ended=8, recovered=True)
    run_row(actor, small, "aborted", asked=9, ended=8)
    run_row(actor, small, "completed", asked=1_441, ended=1_440)
    last = run_row(actor, small, "running", asked=1)
    old = run_row(actor, doubtful, "failed", asked=1_441, ended=1_440)
    ids = {view.name: view.id for view in fabrics_list(actor)}
    found = fabric_activities(actor, NOW)
    assert (found.find_activity(ids[small]).runs, found.find_activity(ids[doubtful]).runs, found.cut) == (4, 0, False)
    assert found.find_activity(ids[small]).mix == {
        Tile.COMPLETED: 1,
        Tile.RECOVERED: 1,
        Tile.ENDED_BADLY: 1,
        Tile.RUNNING: 1,
    }
    newest = [found.find_activity(ids[name]).last for name in (small, doubtful)]
    assert [run.id for run in newest if run] == [last.id, old.id]


def test_activity_of_others_is_not_seen(actor, stranger, small):
    run_row(actor, small, "running")
    assert fabric_activities(stranger, NOW).by_fabric == {}


def test_a_fabric_without_runs_has_no_activity(actor, small):
    nothing = fabric_activities(actor, NOW).find_activity(fabric_get(actor, small).id)
    assert (nothing.last, nothing.runs) == (None, 0)


def test_activity_is_answered_from_indexes(actor, small):
    run_row(actor, small, "running")
    plans = plans_of(lambda: fabric_activities(actor, NOW))
    assert any("run_fabric" in line for line in plans)
    assert [line for line in plans if "SCAN fabric_run" in line] == []
