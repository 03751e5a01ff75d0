"""Publishing: a frozen revision for each content, the same content once, nothing across workspaces."""

from dataclasses import replace

import pytest

from fabric.models import Fabric, Revision
from fabric.selectors.fabrics import fabric_get, fabrics_list, revision_spec
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import fabric_read
from fabric.services.fabrics import drilled_publish, drilled_withdraw, fabric_publish
from fabric.services.workspaces import drills_workspace_ensure
from tests.fabric.services.world import SMALL

SECOND = SMALL.replace("A small fabric", "A better fabric")


def test_publishing_makes_the_first_revision_and_its_spec_reads_back(actor):
    published = fabric_publish(actor=actor, source=SMALL)
    assert (published.name, published.number, published.changed) == ("small", 1, True)
    view = fabric_get(actor, "small")
    assert (view.title, view.digest, view.published_by) == ("A small fabric", published.digest, actor.name)
    assert revision_spec(view.revision_id) == fabric_read(SMALL).spec
    assert revision_spec(view.revision_id).digest() == published.digest


def test_the_same_content_again_is_no_new_revision(actor):
    first = fabric_publish(actor=actor, source=SMALL)
    again = fabric_publish(actor=actor, source=f"# only a comment\n{SMALL}")
    assert (again.number, again.digest, again.changed) == (1, first.digest, False)
    assert Revision.objects.count() == 1


def test_another_content_is_the_next_revision_and_an_old_one_comes_back_under_its_number(actor):
    fabric_publish(actor=actor, source=SMALL)
    second = fabric_publish(actor=actor, source=SECOND)
    assert (second.number, second.changed) == (2, True)
    assert fabric_get(actor, "small").title == "A better fabric"
    back = fabric_publish(actor=actor, source=SMALL)
    assert (back.number, back.changed) == (1, True)
    assert fabric_get(actor, "small").number == 1
    assert Revision.objects.count() == 2


def test_each_workspace_has_its_own(actor, stranger):
    fabric_publish(actor=actor, source=SMALL)
    fabric_publish(actor=stranger, source=SECOND)
    assert [view.title for view in fabrics_list(actor)] == ["A small fabric"]
    assert [view.title for view in fabrics_list(stranger)] == ["A better fabric"]
    assert Fabric.objects.count() == 2


def test_a_problem_is_told_with_its_place_and_nothing_is_stored(actor):
    source = SMALL.replace("    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n", "")
    with pytest.raises(Refused) as caught:
        fabric_publish(actor=actor, source=source, origin="small.yaml")
    assert caught.value.message.startswith("small.yaml, line 5, column 5, models.0.price: no price is known")
    assert caught.value.code == "invalid"
    assert not Fabric.objects.exists()


def test_deviations_and_warnings_are_part_of_the_answer(actor):
    cell = (
        "decision_table:\n  provider_failure:\n    high_stakes: {rungs: [{reaction: surface}], deviation: A pilot.}\n"
    )
    published = fabric_publish(
        actor=actor,
        source=f"{SMALL.replace('name: read_document', 'name: calculator').replace('    tools: [read_document]', '')}{cell}",
    )
    ((path, reason),) = [(one.path, one.reason) for one in published.deviations]
    assert (path, reason) == ("decision_table.provider_failure.high_stakes", "A pilot.")
    assert published.warnings == ("line 9, column 5, tools.0: tool 'calculator' is used nowhere",)


def test_the_operators_hosts_are_asked_for(actor, settings):
    source = SMALL.replace("provider: scripted", "provider: scripted\n    base_url: http://127.0.0.1:8081/v1")
    with pytest.raises(Refused, match="FABRIC_ALLOWED_HOSTS"):
        fabric_publish(actor=actor, source=source)
    settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:8081",)
    assert fabric_publish(actor=actor, source=source).changed


def test_what_a_drill_makes_of_a_fabric_is_published_among_drills_alone_and_withdrawn_once(actor):
    spec = fabric_read(SMALL).spec
    with pytest.raises(Refused, match="belongs into the workspace of drills") as refused:
        drilled_publish(actor=actor, spec=spec)
    assert refused.value.code == "forbidden"
    with pytest.raises(Refused, match="belongs into the workspace of drills"):
        drilled_withdraw(actor=actor, name="small")
    drills = replace(actor, workspace_id=drills_workspace_ensure(actor.workspace_id))
    assert drilled_publish(actor=drills, spec=spec) == 1
    assert fabric_get(drills, "small").number == 1
    assert [drilled_withdraw(actor=drills, name="small") for _ in range(2)] == [True, False]
    with pytest.raises(Refused, match="no fabric is named"):
        fabric_get(drills, "small")
    assert drilled_publish(actor=drills, spec=spec) == 1, "the same content is the same revision"
