"""The decision table of a draft as a grid."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.draft import editing
from console.editor.parts.catalogue import remarks
from console.editor.parts.decision_table import REACTIONS, build
from console.forms.drafts.edits import GROUND, changes_in
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE, LAYERS_ONLY, Reaction
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.drafts.lookup import DraftView
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml

SAMPLE = (SAMPLES / "research-desk.yaml").read_text()
BATCH = "decision_table.provider_failure.batch"


def seen(text: str, base: str = SAMPLE, **asked: str) -> Any:
    from datetime import UTC, datetime

    draft = DraftView(
        id="d", name="research-desk", author="ana", step=0, text=text, base_text=base, base=1, base_id="r", published=1,
        published_id="r", changed_at=datetime.now(UTC),
    )  # fmt: skip
    return editing(draft, None, asked=asked)


def pressed(text: str, button: str) -> str:
    edits, _ = GROUND.pressed(read_yaml(text).value, button)
    return text_edited(text, edits)


def cells(built: dict[str, Any]) -> dict[str, Any]:
    return {cell.key: cell for _, _, row in built["rows"] for cell in row}


def test_the_grid_is_whole_and_says_the_default_table() -> None:
    found = cells(build(seen(SAMPLE)))
    assert set(found) == {f"{failure}.{tier}" for failure in FailureType for tier in Tier}
    for (failure, tier), ladder in DEFAULT_TABLE.items():
        shown = found[f"{failure}.{tier}"]
        assert [one.times for one in shown.rungs] == [str(one.times or "") for one in ladder.rungs]
        assert [one.last for one in shown.rungs] == [n == len(ladder.rungs) - 1 for n in range(len(ladder.rungs))]
        assert not shown.own
        assert not shown.before


def test_reactions_of_layers_are_not_offered() -> None:
    assert set(REACTIONS) == {str(one) for one in Reaction} - {str(one) for one in LAYERS_ONLY}


@pytest.mark.parametrize("cell", [f"{failure}.{tier}" for failure, tier in DEFAULT_TABLE])
def test_an_open_cell_sent_as_it_is_changes_nothing(cell: str) -> None:
    opened = build(seen(SAMPLE, cell=cell))["opened"]
    data = QueryDict(mutable=True)
    for rung in opened.rungs:
        data[rung.reaction.name] = rung.reaction.text
        if not rung.last:
            data[rung.times.name] = rung.times.text
        data[f"p.{rung.accompany.path}"] = "1"
        data.setlist(rung.accompany.name, list(rung.accompany.picked))
        if rung.role:
            data[rung.role.name] = rung.role.text
        if rung.critic:
            data[rung.critic.name] = rung.critic.text
    data[opened.deviation.name] = opened.deviation.text
    assert changes_in(read_yaml(SAMPLE).value, data).edits == ()


def test_a_changed_rung_writes_the_whole_cell_and_nothing_else() -> None:
    data = QueryDict(mutable=True)
    data[f"f.{BATCH}.rungs.0.times"] = "3"
    changed = changes_in(read_yaml(SAMPLE).value, data)
    text = text_edited(SAMPLE, changed.edits)
    assert text.startswith(SAMPLE.rstrip("\n"))
    found = seen(text)
    assert found.spec is not None
    rungs = found.spec.decision_table[FailureType.PROVIDER][Tier.BATCH].rungs
    assert [(rung.reaction, rung.times) for rung in rungs] == [
        ("retry", 3),
        ("wait_for_breaker", 2),
        ("escalate", None),
    ]
    assert cells(build(found))["provider_failure.batch"].before == "retry ×5 → wait for breaker ×2 → escalate"


@pytest.mark.parametrize(
    ("button", "ladder"),
    [
        (f"add {BATCH}.rungs", "retry ×5 → wait for breaker ×2 → retry ×1 → escalate"),
        (f"up {BATCH}.rungs.1", "wait for breaker ×2 → retry ×5 → escalate"),
        (f"down {BATCH}.rungs.0", "wait for breaker ×2 → retry ×5 → escalate"),
        (f"remove {BATCH}.rungs.0", "wait for breaker ×2 → escalate"),
        (f"up {BATCH}.rungs.2", "retry ×5 → escalate ×1 → wait for breaker"),
        (f"remove {BATCH}.rungs.2", "retry ×5 → wait for breaker"),
        (f"up {BATCH}.rungs.0", "retry ×5 → wait for breaker ×2 → escalate"),
    ],
)
def test_buttons_keep_a_ladder_that_ends(button: str, ladder: str) -> None:
    from console.editor.parts.decision_table import spoken

    tree = read_yaml(pressed(SAMPLE, button)).value
    cell = tree.get("decision_table", {}).get("provider_failure", {}).get("batch")
    default = DEFAULT_TABLE[FailureType.PROVIDER, Tier.BATCH].model_dump(mode="json", by_alias=True)
    assert spoken(cell or default) == ladder


def test_a_cell_given_up_leaves_no_trace() -> None:
    changed = pressed(SAMPLE, f"add {BATCH}.rungs")
    assert pressed(changed, f"reset {BATCH}") == SAMPLE


def test_a_cell_without_an_end_is_told_at_the_cell() -> None:
    text = f"{SAMPLE}\ndecision_table:\n  provider_failure:\n    batch:\n      rungs:\n        - {{reaction: retry, times: 2}}\n"
    found = seen(text, cell="provider_failure.batch")
    assert any(one.path == BATCH and one.line for one in found.checked.errors)
    assert cells(build(found))["provider_failure.batch"].level == "error"


@pytest.mark.parametrize(
    "cell",
    [
        "5",
        "[]",
        "{rungs: 3}",
        "{rungs: [1, null, {}]}",
        "{rungs: [{reaction: fly}]}",
        "{rungs: [{reaction: retry, with: 3}]}",
    ],
)
def test_what_is_no_ladder_is_shown_all_the_same(cell: str) -> None:
    text = f"{SAMPLE}\ndecision_table:\n  provider_failure:\n    batch: {cell}\n"
    built = build(seen(text, cell="provider_failure.batch", simulate="provider_failure.batch"))
    assert built["opened"] is not None
    assert built["walk"].problem


def test_a_supposed_failure_lights_its_cell_and_walks_to_an_end() -> None:
    built = build(seen(SAMPLE, simulate="provider_failure.batch"))
    assert [cell.key for cell in cells(built).values() if cell.lit] == ["provider_failure.batch"]
    told = built["walk"].told
    assert [line.reaction for line in told.lines if line.what == "decided"] == ["retry"] * 5 + ["escalate"]


# -- the cells of one stage --------------------------------------------------------------------------------------------

OF_PLAN = "policy.stages.plan.decision_table.provider_failure.batch"


def test_a_stages_table_shows_the_fabrics_cells_until_one_is_written() -> None:
    whole, built = build(seen(SAMPLE)), build(seen(SAMPLE, stage="plan"))
    assert [cell.rungs for cell in cells(built).values()] == [cell.rungs for cell in cells(whole).values()]
    assert (built["changed"], {cell.path.split(".")[2] for cell in cells(built).values()}) == (0, {"plan"})
    own = pressed(SAMPLE, f"remove {OF_PLAN}.rungs.0")
    found = seen(own, stage="plan", cell="provider_failure.batch")
    assert found.spec is not None
    rungs = found.spec.policy.stages[Stage.PLAN].decision_table[FailureType.PROVIDER][Tier.BATCH].rungs
    assert [rung.reaction for rung in rungs] == ["wait_for_breaker", "escalate"]
    built = build(found)
    assert (built["changed"], dict(built["stages"])) == (1, {**dict.fromkeys(Stage, 0), Stage.PLAN: 1})
    assert built["opened"].default == "retry ×5 → wait for breaker ×2 → escalate"
    assert build(seen(own))["changed"] == 0, "the fabric's own table is as it was"
    assert pressed(own, f"reset {OF_PLAN}") == SAMPLE


def test_a_stages_cell_begins_as_the_fabrics_own() -> None:
    fabric = pressed(SAMPLE, f"remove {BATCH}.rungs.0")
    own = seen(pressed(fabric, f"add {OF_PLAN}.rungs"))
    assert own.spec is not None
    rungs = own.spec.policy.stages[Stage.PLAN].decision_table[FailureType.PROVIDER][Tier.BATCH].rungs
    assert [rung.reaction for rung in rungs] == ["wait_for_breaker", "retry", "escalate"]


def test_a_problem_in_a_stages_cell_leads_to_its_table() -> None:
    text = f"{SAMPLE}\n" if "\n  stages:" in SAMPLE else SAMPLE
    own = pressed(text, f"remove {OF_PLAN}.rungs.0")
    broken = own.replace("reaction: escalate", "reaction: fly")
    [told] = [one for one in remarks(seen(broken).checked) if one.finding.path.startswith(OF_PLAN)]
    assert told.address.startswith("?part=table&cell=provider_failure.batch&stage=plan#f.")


def test_a_failure_is_supposed_in_the_stage_whose_table_is_shown() -> None:
    own = pressed(pressed(SAMPLE, f"remove {OF_PLAN}.rungs.0"), f"remove {OF_PLAN}.rungs.0")
    cell = "provider_failure.batch"
    told = build(seen(own, stage="plan", cell=cell, simulate=cell))["walk"].told
    assert (told.stage, told.own, [line.reaction for line in told.lines]) == (Stage.PLAN, True, ["escalate"])
    assert build(seen(own, cell=cell, simulate=cell))["walk"].told.lines[0].reaction == "retry"


def test_a_supposed_failure_says_what_follows_without_an_answer() -> None:
    built = build(seen(SAMPLE, simulate=f"{FailureType.TOOL_LOOP}.batch"))
    assert "then the next step follows" in render_to_string("editor/walk.html", built)
