"""Reading fabrics: one query a list, names told when one is not found."""

import json

import pytest

from fabric.core.taxonomy import Tier
from fabric.models import Revision
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import fabric_get, fabrics_list, revision_spec


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
    assert caught.value.message == "no fabric is named 'large'; there are: doubtful, small"
    assert (caught.value.code, caught.value.field) == ("not_found", "fabric")


def test_a_list_outlives_a_spec_that_would_no_longer_be_accepted(actor, small):
    revision = Revision.objects.get()
    spec = json.loads(revision.spec) | {"left_over": True}
    Revision.objects.update(spec=json.dumps(spec))
    assert [view.name for view in fabrics_list(actor)] == ["small"]


def test_there_is_no_revision_of_that_id(db):
    with pytest.raises(Refused, match="there is no revision 'x'"):
        revision_spec("x")
