"""Some changes make a verdict stale, and others do not."""

from __future__ import annotations

import shutil

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.play.circumstances import OF_A_BRANCH
from simulator.scenarios.promises import digests as module
from simulator.scenarios.promises.digests import LEADS_TO, covers, engine_version
from tests.simulator.drills.drilled import drilled, with_cell

ABORT = {"reaction": "abort"}
F, T = FailureType, Tier


def changed(before, after):
    return {cell for cell in before if before[cell] != after[cell]}


PLAIN = covers(drilled(), "1")


def test_every_cell_has_a_digest_of_its_own():
    assert set(PLAIN) == {(failure, tier) for failure in F for tier in T}
    assert len(set(PLAIN.values())) == 24
    assert covers(drilled(), "1") == PLAIN


def test_the_rows_that_others_lead_to_are_those_of_the_judge():
    assert set(LEADS_TO) == set(F)
    assert {failure for failure, rows in LEADS_TO.items() if rows} == OF_A_BRANCH


def test_a_cell_of_its_own_makes_that_cell_stale_and_no_other():
    assert changed(PLAIN, covers(with_cell("provider_failure", "batch", ABORT), "1")) == {(F.PROVIDER, T.BATCH)}


def test_the_cell_that_a_branch_ends_in_makes_those_of_the_branches_stale_too():
    after = covers(with_cell("schema_grounding_fail", "interactive", ABORT), "1")
    assert changed(PLAIN, after) == {(F.SCHEMA_GROUNDING, T.INTERACTIVE)} | {
        (failure, T.INTERACTIVE) for failure in OF_A_BRANCH
    }


def test_why_a_cell_is_laxer_is_not_what_it_does():
    one, other = with_cell("provider_failure", "batch", ABORT), with_cell("provider_failure", "batch", ABORT)
    ladder = other.decision_table[F.PROVIDER][T.BATCH].model_copy(update={"deviation": "for another reason"})
    other = other.model_copy(update={"decision_table": {F.PROVIDER: {T.BATCH: ladder}}})
    assert covers(one, "1") == covers(other, "1")


def test_what_is_only_said_about_a_fabric_changes_nothing():
    said = drilled().model_copy(update={"title": "Another", "description": "Other words.", "example": "Why?"})
    assert covers(said, "1") == PLAIN


def _limit(spec):
    limits = spec.policy.limits.model_copy(update={"replans_per_stage": spec.policy.limits.replans_per_stage + 1})
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"limits": limits})})


def _agent(spec):
    first = spec.agents[0].model_copy(update={"instructions": "Be brief."})
    return spec.model_copy(update={"agents": (first, *spec.agents[1:])})


@pytest.mark.parametrize("change", [_limit, _agent])
def test_a_limit_and_an_agent_make_every_cell_stale(change):
    assert len(changed(PLAIN, covers(change(drilled()), "1"))) == 24


def test_another_engine_makes_every_cell_stale():
    assert len(changed(PLAIN, covers(drilled(), "2"))) == 24


def test_the_engine_is_what_decides_and_what_judges_and_nothing_that_keeps(tmp_path, monkeypatch):
    here = engine_version()
    folders = []
    for folder in module.ENGINE:
        folders.append(tmp_path / folder.parent.name / folder.name)
        shutil.copytree(folder, folders[-1])
    monkeypatch.setattr(module, "ENGINE", tuple(folders))
    (reports,) = (folder / "reports" for folder in folders if folder.name == "scenarios")
    monkeypatch.setattr(module, "REPORTS", reports)

    def version():
        return engine_version.__wrapped__()

    assert version() == here
    for path in reports.glob("*.py"):
        path.write_text(path.read_text() + "# another line\n")
    assert version() == here
    path = reports.parent / "promises" / "expectation.py"
    path.write_text(path.read_text() + "# another line\n")
    judge = version()
    assert judge != here
    path = folders[0] / "ladders" / "ladder.py"
    path.write_text(path.read_text() + "# another line\n")
    assert version() not in {here, judge}
