"""Publishing: a frozen revision for each content, the same content once, nothing across workspaces."""

from dataclasses import replace
from functools import partial

import pytest

from fabric.core.people.actor import Actor
from fabric.models import AuditLine, Fabric, Revision
from fabric.selectors.fabrics.lookup import fabric_get, fabrics_list, revision_spec
from fabric.services.actors import drills_workspace_ensure
from fabric.services.errors import Refused
from fabric.services.fabrics.comparison import build_side, compare_sides, fabric_dry_run
from fabric.services.fabrics.revisions import (
    PublishedFabric,
    drilled_publish,
    drilled_withdraw,
    fabric_publish,
    fabric_revert,
)
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.at_once import at_once
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


THIRD = SMALL.replace("A small fabric", "The best fabric")


class TestExpected:
    """An author who says which revision they have seen publishes over no other."""

    @pytest.mark.parametrize(("expect", "stands"), [(0, "revision 1 published"), (2, "revision 1 published")])
    def test_another_one_is_a_conflict_and_nothing_is_stored(self, actor, small, expect, stands):
        with pytest.raises(Refused, match=stands) as refused:
            fabric_publish(actor=actor, source=SECOND, expect=expect)
        assert refused.value.code == "conflict"
        assert Revision.objects.count() == 1
        with pytest.raises(Refused, match=stands):
            fabric_dry_run(actor=actor, source=SECOND, expect=expect)

    def test_none_is_expected_of_what_is_new(self, actor):
        with pytest.raises(Refused, match="has none published, and revision 3 was expected"):
            fabric_publish(actor=actor, source=SMALL, expect=3)
        assert not Fabric.objects.exists()
        assert fabric_publish(actor=actor, source=SMALL, expect=0).changed

    def test_the_same_again_is_no_conflict(self, actor, small):
        assert fabric_publish(actor=actor, source=SECOND, expect=1).was == 1
        assert fabric_publish(actor=actor, source=SECOND, expect=1).changed is False

    @pytest.mark.parametrize("known", [False, True])
    def test_of_two_at_once_one_is_published(self, actor, small, known):
        if known:
            for source in (SECOND, THIRD, SMALL):
                fabric_publish(actor=actor, source=source)
        told = at_once([partial(fabric_publish, actor=actor, source=one, expect=1) for one in (SECOND, THIRD)])
        (done,) = [one for one in told if isinstance(one, PublishedFabric)]
        (refused,) = [one for one in told if isinstance(one, Refused)]
        assert refused.code == "conflict"
        assert fabric_get(actor, "small").number == done.number


class TestReverted:
    def test_an_older_revision_is_published_again_by_its_number_with_its_text(self, actor):
        fabric_publish(actor=actor, source=f"# The first.\n{SMALL}")
        fabric_publish(actor=actor, source=SECOND)
        back = fabric_revert(actor=actor, name="small", number=1)
        assert (back.number, back.was, back.changed, back.rewritten) == (1, 2, True, False)
        assert fabric_get(actor, "small").title == "A small fabric"
        assert Revision.objects.get(number=1).source.startswith("# The first.")
        kinds = list(AuditLine.objects.filter(kind__startswith="fabric_").order_by("at").values_list("kind", flat=True))
        assert kinds == ["fabric_published", "fabric_published", "fabric_reverted"]

    def test_twice_is_once(self, actor, small):
        fabric_publish(actor=actor, source=SECOND)
        fabric_revert(actor=actor, name="small", number=1)
        assert fabric_revert(actor=actor, name="small", number=1).changed is False
        assert AuditLine.objects.filter(kind="fabric_reverted").count() == 1

    def test_todays_rules_judge_it(self, actor, settings):
        settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:8081",)
        local = SMALL.replace("provider: scripted", "provider: scripted\n    base_url: http://127.0.0.1:8081/v1")
        fabric_publish(actor=actor, source=local)
        fabric_publish(actor=actor, source=SMALL)
        settings.FABRIC_ALLOWED_HOSTS = ()
        with pytest.raises(Refused, match="^small@1, line 7, column 15, models.0.base_url: .*FABRIC_ALLOWED_HOSTS"):
            fabric_revert(actor=actor, name="small", number=1)
        assert fabric_get(actor, "small").number == 2

    def test_what_there_is_not_and_what_is_not_expected(self, actor, small):
        with pytest.raises(Refused, match="has no version r7"):
            fabric_revert(actor=actor, name="small", number=7)
        fabric_publish(actor=actor, source=SECOND)
        with pytest.raises(Refused, match="revision 2 published, and revision 5 was expected"):
            fabric_revert(actor=actor, name="small", number=1, expect=5)

    def test_it_is_for_those_who_may_edit(self, actor, small):
        viewer = Actor(name="vera", workspace_id=actor.workspace_id, roles=("viewer",))
        for act in (
            partial(fabric_revert, name="small", number=1),
            partial(fabric_publish, source=SECOND),
            partial(fabric_dry_run, source=SECOND),
        ):
            with pytest.raises(Refused, match="vera may not publish fabrics"):
                act(actor=viewer)


class TestDryRun:
    def test_it_says_what_would_change_and_changes_nothing(self, actor, small):
        found = fabric_dry_run(actor=actor, source=SECOND)
        assert (found.published.number, found.published.changed, found.new) == (2, True, True)
        assert [(one.path, one.before, one.after) for one in found.changes] == [
            ("title", "A small fabric", "A better fabric")
        ]
        assert Revision.objects.count() == 1
        assert fabric_publish(actor=actor, source=SECOND) == found.published

    def test_of_what_is_new_of_the_same_and_of_an_older_content(self, actor):
        first = fabric_dry_run(actor=actor, source=SMALL)
        assert (first.published.number, first.published.was, first.new, first.changes) == (1, None, True, ())
        fabric_publish(actor=actor, source=SMALL)
        same = fabric_dry_run(actor=actor, source=f"# Another text.\n{SMALL}")
        assert (same.published.changed, same.published.rewritten, same.new, same.changes) == (False, True, False, ())
        fabric_publish(actor=actor, source=SECOND)
        old = fabric_dry_run(actor=actor, source=SMALL)
        assert (old.published.number, old.published.was, old.new, len(old.changes)) == (1, 2, False, 1)

    def test_it_is_judged(self, actor):
        with pytest.raises(Refused, match="no price is known"):
            fabric_dry_run(
                actor=actor, source=SMALL.replace("    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n", "")
            )


def test_two_revisions_are_compared_by_path_with_the_table_in_force(actor, small):
    cell = "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: abort}]}\n"
    fabric_publish(actor=actor, source=SMALL + cell)
    found = compare_sides(build_side(actor, "small", 1), build_side(actor, "small"))
    assert [one.path for one in found.changes] == ["decision_table.provider_failure.batch.rungs"]
    assert found.changes[0].after == "abort"
    assert found.text().startswith("--- small@1\n+++ small@2\n")
    assert "+      rungs:" in found.text()
    assert compare_sides(build_side(actor, "small", 2), build_side(actor, "small")).same
