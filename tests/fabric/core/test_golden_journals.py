"""What older versions of the program wrote is read by this one (``tests/golden.py`` says how the files came to be)."""

from collections import Counter
from hashlib import sha256

import pytest

from fabric.core.derivation import Rules, derived_all
from fabric.core.envelope import NO_PAYLOAD, from_row, verify_chain
from fabric.core.evolve import fold
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.flow import FORMAT
from fabric.core.inputs import INBOX
from fabric.core.run import Run
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.teams import spec_within
from fabric.runtime import projection
from tests import golden

FILES = golden.files()


def test_there_is_a_golden_file():
    assert FILES


@pytest.fixture(params=FILES, ids=lambda path: path.name.partition(".")[0])
def runs(request):
    return list(golden.read(request.param))


def test_each_run_is_whole(runs):
    assert len(runs) >= 10
    for run in runs:
        chained = [(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in run["rows"]]
        assert verify_chain(chained, ZERO_HASH) is None
        for row in run["rows"]:
            assert row.payload_hash == (NO_PAYLOAD if row.payload is None else sha256(row.payload).digest())


def test_each_run_folds_to_what_its_version_said_of_it(runs):
    for run in runs:
        events = [from_row(row.seq, row.kind, row.version, row.header) for row in run["rows"]]
        folded = fold(Run(run["run_id"], tier=Tier(run["tier"]), seed=run["seed"]), events)
        columns = projection.columns(folded)
        assert {name: getattr(columns, name) for name in run["columns"]} == run["columns"]
        assert folded.seq == len(run["rows"])


SHOWN = {
    1: {"run_ended", "call_issued", "reaction_decided", "replanned", "escalation_decided", "cancel_accepted"},
    2: {
        *("mutation_intended", "mutation_settled", "reconciliation_ended", "unwinding_started", "unwinding_finished"),
        *("compensation_answered", "compensation_stuck", "compensation_by_hand", "compensation_skipped"),
        *("compensation_abandoned", "unwinding_omitted", "run_paused", "run_resumed", "terminate_accepted"),
        *("run_forked", "run_quarantined", "run_released_from_quarantine"),
    },
    3: {"alert_raised", "model_changed", "cap_raised", "child_answered", "replanned", "retry_scheduled"},
    4: {"node_retry_scheduled", "step_failed", "reaction_decided"},
    5: {"model_changed", "rung_skipped"},
    6: {"attempt_failed.shut", "budget_raised"},
    7: {"escalation_opened.weighed"},
    8: {
        *("escalation_approved", "escalation_edited", "output_edited", "guidance_given", "run_forked"),
        *(f"escalation_decided.{field}" for field in ("roles", "agreed", "proposed_by")),
        *(f"escalation_opened.{field}" for field in ("approvals", "barred", "onward_to", "score", "item=ticket")),
    },
    9: {
        *(
            "call_streamed",
            "call_resolved",
            "call_skipped",
            "turn_opened",
            "speaker_chosen",
            "turn_overdue",
            "person_said",
        ),
        *(f"speaker_chosen.{field}" for field in ("transition", "level", "crossed", "close_reason")),
        *(f"tool_answered.{field}" for field in ("hands_to", "ends", "handled")),
        *("attempt_failed.partial", "call_edited.proposed_tool", "child_answered.released"),
        *("run_forked.topology", "step_failed.routed"),
    },
    10: {
        *("mutation_inherited", "mutation_inherited.carry_over", "child_spawned.keys", "child_spawned.handed_down"),
        *("lineage_pinned.keys", "child_answered.keys_spent"),
    },
    11: {
        *("input_requested", "input_given", "attempt_failed.input_tokens"),
        *("model_answered.finish", "model_answered.parts", "model_answered.usage_problem", "model_changed.left_out"),
    },
}
"""What a file of each format has to show at least."""
UNDER_WAY: set[int] = {12}
"""Formats whose shapes may still change, and which have no file yet."""


def test_each_format_has_files_that_show_what_it_brought():
    shown = {format: set() for format in range(1, FORMAT + 1)}
    for path in FILES:
        shown[golden.format_of(path)] |= {
            each for run in golden.read(path) for row in run["rows"] for each in golden.shown(row)
        }
    assert set(SHOWN) | UNDER_WAY == set(shown)
    assert {format: sorted(kinds - shown[format]) for format, kinds in SHOWN.items()} == {
        format: [] for format in SHOWN
    }


FIRST_WITH_SPECS = 3
"""The format whose files hold the fabrics."""
FIRST_WITH_WHOLE_SPECS = 9
"""The format whose files hold of a team's run the whole fabric too, and not that with the team's topology."""


def rules_of(run):
    """What a decision of a golden run is derived under; None where its table was not kept."""
    if "spec" in run:
        spec = FabricSpec.model_validate(run["spec"])
        prices = {model.name: model.price.price() for model in spec.models if model.price is not None}
        return lambda topology, version, policy: Rules.of_spec(spec_within(spec, topology), prices)
    tables = golden.tables()
    return lambda topology, version, policy: Rules.table_alone(tables[version]) if version in tables else None


OTHER_TABLES = {1: 25, 4: 7, 5: 6, 6: 8, 7: 9}
"""Decisions by a table that there is not any more, by format. Of the first format's fabrics those with cells of their own were not kept; in the others retry layers
stand in front of cells whose wait for a breaker was left out then, and is not now."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_each_decision_derives_from_its_journal(path):
    found = Counter()
    for run in golden.read(path):
        events = [from_row(row.seq, row.kind, row.version, row.header) for row in run["rows"]]
        for one in derived_all(events, Tier(run["tier"]), rules_of(run)):
            assert one.verdict != "different", (run["run_id"], one.seq, one.differences)
            found[one.verdict] += 1
    assert found["equal"] >= 70
    assert found["other_table"] == OTHER_TABLES.get(golden.format_of(path), 0)


def test_models_are_chosen_again_in_the_newest_journals():
    path = next(path for path in FILES if golden.format_of(path) == 5)
    judged = Counter()
    for run in golden.read(path):
        events = [from_row(row.seq, row.kind, row.version, row.header) for row in run["rows"]]
        judged.update(name for one in derived_all(events, Tier(run["tier"]), rules_of(run)) for name in one.judged)
    assert judged["candidates"] >= 3


def test_the_fabrics_that_are_kept_are_those_that_ran():
    compared = 0
    for path in FILES:
        if golden.format_of(path) < FIRST_WITH_SPECS:
            continue
        for run in golden.read(path):
            facts = [from_row(row.seq, row.kind, row.version, row.header).fact for row in run["rows"]]
            started = next((fact for fact in facts if fact.kind == "run_started"), None)
            alone = golden.format_of(path) < FIRST_WITH_WHOLE_SPECS
            nested = any(fact.kind == "lineage_pinned" and fact.topology for fact in facts)
            if started is not None and not (nested and alone):
                assert FabricSpec.model_validate(run["spec"]).digest() == started.revision
                compared += 1
    assert compared >= 10


def test_each_input_is_read(runs):
    inputs = [INBOX.validate_json(body) for run in runs for body in run["inputs"]]
    assert {"run_requested", "decision_made", "cancel_requested"} <= {one.kind for one in inputs}
