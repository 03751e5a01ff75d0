"""This program reads what its releases wrote (``tests/data/golden.py`` says how the files came to be)."""

from collections import Counter
from hashlib import sha256
from typing import Any

import pytest

from fabric.auditor import derive_all
from fabric.core.child_runs.teams import spec_within
from fabric.core.events.envelope import NO_PAYLOAD, list_events, verify_chain
from fabric.core.events.inputs import INBOX
from fabric.core.evolve import fold
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.spec.retry_layers import ladders
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH, fingerprint
from fabric.core.values.flow import FORMAT
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal import projection
from tests.data import golden

FILES = golden.files()


def test_each_format_has_a_golden_file():
    assert {golden.format_of(path) for path in FILES} == {*golden.RELEASED, FORMAT}


@pytest.fixture(params=FILES, ids=lambda path: path.name.partition(".")[0])
def runs(request):
    return list(golden.read(request.param))


def events_of(run):
    return list_events(run["rows"])


def test_each_run_is_whole(runs):
    assert len(runs) >= 10
    for run in runs:
        chained = [(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in run["rows"]]
        assert verify_chain(chained, ZERO_HASH) is None
        for row in run["rows"]:
            assert row.payload_hash == (NO_PAYLOAD if row.payload is None else sha256(row.payload).digest())


def test_each_run_folds_to_what_its_version_said_of_it(runs):
    for run in runs:
        folded = fold(Run(run["run_id"], tier=Tier(run["tier"]), seed=run["seed"]), events_of(run))
        columns = projection.columns(folded)
        assert {name: getattr(columns, name) for name in run["columns"]} == run["columns"]
        assert folded.seq == run["rows"][-1].last_seq


def test_the_newest_format_shows_everything_that_can_be():
    newest = [path for path in FILES if golden.format_of(path) == FORMAT]
    shown = {each for path in newest for run in golden.read(path) for row in run["rows"] for each in golden.shown(row)}
    assert sorted(set(golden.looked_for()) - shown) == []


def without_evaluators(spec, prices):
    """Compile a fabric whose evaluators are not at hand: no decision is derived by them."""
    return CompiledFabric(spec, spec.digest(), ladders(table_with(spec.decision_table), spec), prices)


def fabric_of(run):
    """Return the fabric of a golden run for the auditor."""
    spec = FabricSpec.model_validate(run["spec"])
    prices = {model.name: model.price.price() for model in spec.models if model.price is not None}
    return lambda topology, version, policy: without_evaluators(spec_within(spec, topology), prices)


def test_each_decision_derives_from_its_journal(runs):
    found, judged = Counter(), Counter()
    for run in runs:
        for one in derive_all(events_of(run), Tier(run["tier"]), fabric_of(run)):
            assert one.verdict == "equal", (run["run_id"], one.seq, one.verdict, one.differences)
            found[one.verdict] += 1
            judged.update(one.judged)
    assert found["equal"] >= 70
    assert judged["candidates"] >= 3


def test_the_fabrics_that_are_kept_are_those_that_ran(runs):
    started = [
        (run["spec"], event.fact) for run in runs for event in events_of(run) if event.fact.kind == "run_started"
    ]
    assert len(started) >= 10
    assert all(fingerprint(by_field(spec)) == fact.revision for spec, fact in started)


def by_field(tree: Any) -> Any:
    """A kept fabric as it was digested. A field that a later version adds is in no digest of an earlier one."""
    if isinstance(tree, list):
        return [by_field(one) for one in tree]
    if isinstance(tree, dict):
        return {"with_" if key == "with" else key: by_field(one) for key, one in tree.items()}
    return tree


def test_each_input_is_read(runs):
    inputs = [INBOX.validate_json(body) for run in runs for body in run["inputs"]]
    assert {"run_requested", "decision_made", "cancel_requested"} <= {one.kind for one in inputs}
