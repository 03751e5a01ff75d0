"""A draft takes in by path what was published while it was being written."""

from __future__ import annotations

from functools import partial

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.three_way import Side
from fabric.services.drafts.merges import brought_in
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.edits import PutEdit, text_edited
from fabric.services.fabrics.yaml.export import written_out
from fabric.services.fabrics.yaml.tree import read_yaml

BASE = (SAMPLES / "research-desk.yaml").read_text()
TAU, TITLE, TURNS = ("policy", "tau"), ("title",), ("policy", "limits", "turns")


def spec_of(text: str) -> FabricSpec:
    return FabricSpec.model_validate(read_yaml(text).value)


def changed(text: str, **values: object) -> str:
    places = {"tau": TAU, "title": TITLE, "turns": TURNS}
    return text_edited(text, [PutEdit(places[name], value) for name, value in values.items()])


@pytest.mark.parametrize("written", [False, True], ids=["as its author wrote it", "every default written out"])
def test_what_only_the_published_one_changed_comes_in_and_what_only_the_draft_changed_stays(written: bool) -> None:
    base = written_out(spec_of(BASE)) if written else BASE
    mine, theirs = changed(base, title="Mine"), changed(BASE, turns=9)
    found = brought_in(base_text=base, text=mine, base=spec_of(BASE), published=spec_of(theirs))
    assert found.conflicts == ()
    assert found.taken == (("policy.limits.turns",) if written else ("policy.limits",))
    merged = spec_of(found.text)
    assert (merged.title, merged.policy.limits.turns) == ("Mine", 9)
    assert merged.model_copy(update={"title": spec_of(theirs).title}) == spec_of(theirs)
    assert spec_of(found.base_text) == spec_of(theirs)


def test_comments_of_the_draft_stay() -> None:
    found = brought_in(
        base_text=BASE, text=changed(BASE, title="Mine"), base=spec_of(BASE), published=spec_of(changed(BASE, tau=0.9))
    )
    lines = [line for line in BASE.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in lines if line not in found.text] == []


@pytest.mark.parametrize("written", [False, True])
def test_what_both_changed_is_asked_and_stands_as_it_is_chosen(written: bool) -> None:
    base = written_out(spec_of(BASE)) if written else BASE
    mine, theirs = changed(base, tau=0.5), changed(BASE, tau=0.9)
    merge = partial(brought_in, base_text=base, text=mine, base=spec_of(BASE), published=spec_of(theirs))
    asked = merge()
    assert [(one.path, one.base, one.mine, one.theirs) for one in asked.conflicts] == [("policy.tau", 0.7, 0.5, 0.9)]
    assert spec_of(asked.text).policy.tau == 0.5
    sides: tuple[tuple[Side, float], ...] = (("mine", 0.5), ("theirs", 0.9))
    for side, tau in sides:
        settled = merge(choices={"policy.tau": side})
        assert settled.conflicts == ()
        assert spec_of(settled.text).policy.tau == tau


def test_going_back_to_a_default_is_a_change_too() -> None:
    base = changed(BASE, turns=9)
    found = brought_in(base_text=base, text=changed(base, title="Mine"), base=spec_of(base), published=spec_of(BASE))
    assert found.conflicts == ()
    assert spec_of(found.text).policy.limits.turns == 25


def test_a_fabric_that_was_published_only_meanwhile_is_compared_as_a_whole() -> None:
    found = brought_in(
        base_text=BASE, text=changed(BASE, tau=0.5), base=None, published=spec_of(changed(BASE, tau=0.9))
    )
    assert [one.path for one in found.conflicts] == ["policy.tau"]


@pytest.mark.parametrize("written", [False, True])
def test_another_limit_of_the_same_group_is_no_conflict(written: bool) -> None:
    base = written_out(spec_of(BASE)) if written else BASE
    mine = text_edited(base, [PutEdit(("policy", "limits", "hops"), 3)])
    found = brought_in(base_text=base, text=mine, base=spec_of(BASE), published=spec_of(changed(BASE, turns=9)))
    assert found.conflicts == ()
    assert (spec_of(found.text).policy.limits.hops, spec_of(found.text).policy.limits.turns) == (3, 9)
