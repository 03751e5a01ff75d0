"""Real runs that met failures are captured, and what is captured makes the same decisions when it is played in the same fabric."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core.events.envelope import JournalRow
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import FailureType
from fabric.models import Attachment, AuditLine, Event, Run
from fabric.runtime.ports.batch_parts import origin_from
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.library.captures import capturable, scenario_capture
from simulator.drills.library.selectors import scenario_get
from simulator.scenarios.baseline.work import journaled_chain
from simulator.scenarios.play.player import build_work, play
from simulator.scenarios.spec.scenario import Attached
from simulator.scenarios.spec.toml import parse_scenario
from simulator.texts.problems import Unreadable
from tests.fabric.services.world import DOUBTFUL, NOTES, SMALL, SPARED, SPARED_STRICT, ran
from tests.people import fresh, member
from tests.simulator.drills.management.test_scenario_command import scenario

PRICE = "    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n"
KEPT = origin_from("PDF", b"the file", NOTES.text, ("no text on page 4",)).as_json()
UNGUARDED = "\n  breakers: []\n  breakers_deviation: The runs of this test share no guards.\n"
QUICK = SMALL.replace("run_usd_micros: 1000000}", f"run_usd_micros: 1000000}}\n  retry: {{base_s: 0.01}}{UNGUARDED}")


def failing(cause: str, **more: object) -> str:
    """A fabric whose every model call fails of a cause."""
    told = ", ".join(f"{name}: {value}" for name, value in {"cause": cause, **more}.items())
    return QUICK.replace(PRICE, f"{PRICE}    options: {{fail: {{{told}}}}}\n")


def chain(run_id: str) -> str:
    """The decisions of a stored run."""
    stored = Event.objects.filter(run_id=run_id).order_by("seq")
    rows = tuple(
        JournalRow(
            seq=one.seq,
            kind=one.kind,
            version=one.version,
            at=one.at,
            header=bytes(one.header),
            payload=None,
            payload_hash=b"",
            hash=b"",
        )
        for one in stored
    )
    return str(journaled_chain(rows, RunState(Run.objects.get(id=run_id).state)))


FAILING = {
    "server_error": failing("server_error"),
    "rate_limit": failing("rate_limit"),
    "dropped_stream": failing("dropped_stream"),
    "network": failing("network"),
    "content_filter": failing("content_filter"),
    "spared": SPARED.replace("\n  retry: {base_s: 0.01}", f"\n  retry: {{base_s: 0.01}}{UNGUARDED}"),
    "strict": SPARED_STRICT,
    "doubtful": DOUBTFUL,
}
"""Fabrics whose runs meet failures of several kinds."""


@pytest.mark.parametrize("kind", FAILING)
def test_a_run_s_failures_are_repeated_with_the_same_decisions(actor, kind):
    fabric = fabric_publish(actor=actor, source=FAILING[kind]).name
    run = ran(actor, fabric)
    seen = chain(run.id)
    found = scenario_capture(actor=actor, run_id=run.id)
    one = found.view.readable()
    assert (one.tiers, one.workload.request) == ((run.tier,), "What do the notes say?")
    assert [(each.name, each.text) for each in one.workload.documents] == [(NOTES.name, NOTES.text)]
    again = play(revision_spec(run.revision_id), one, run.tier)
    decisions, _, _ = again.observed_chain.rpartition(" > ")
    if run.state == "waiting":
        assert seen == f"{decisions} > waiting", found.view.source
    else:
        assert again.observed_chain == seen, found.view.source
    assert again.struck


def test_what_is_captured_is_the_run_s_and_says_so(actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    found = scenario_capture(actor=actor, run_id=run.id, name="what-broke")
    view = scenario_get(actor, "what-broke")
    assert (view.origin, view.captured_from, found.view) == ("captured", run.id, view)
    one = view.readable()
    assert one.failure is FailureType.PROVIDER
    assert f"Captured from run {run.id} of small@r1" in one.description
    assert not one.disturbance, "what is replayed needs no fault"
    assert {(each.kind, each.cause, each.call[:5]) for each in one.recorded} == {("model", "server_error", "plan.")}
    assert AuditLine.objects.get(kind="scenario_saved", subject="what-broke")
    with pytest.raises(Refused, match="the name what-broke is that of another scenario"):
        scenario_capture(actor=actor, run_id=run.id, name="what-broke")
    assert (
        scenario_capture(actor=actor, run_id=run.id).view.name != scenario_capture(actor=actor, run_id=run.id).view.name
    )


def test_what_no_fault_makes_is_said_and_nothing_is_kept(actor):
    """Contents are withheld from a viewer, and no fault of the catalogue makes this failure."""
    run = ran(actor, fabric_publish(actor=actor, source=failing("auth")).name)
    viewer = fresh(member("ben", "viewer"))
    with pytest.raises(
        Refused, match="nothing of this run can be made to happen again: event .*a call that failed of auth"
    ) as refused:
        capturable(viewer, run.id)
    assert refused.value.code == "conflict"


def test_a_run_that_met_nothing_has_nothing_to_repeat(actor, small, stranger):
    run = ran(actor, small)
    with pytest.raises(Refused, match="as none of its calls failed"):
        scenario_capture(actor=actor, run_id=run.id)
    with pytest.raises(Refused) as refused:
        scenario_capture(actor=stranger, run_id=run.id)
    assert refused.value.code == "not_found"


def test_a_document_keeps_the_file_that_it_was_read_from(actor):
    fabric = fabric_publish(actor=actor, source=FAILING["doubtful"]).name
    typed = replace(NOTES, name="typed.md")
    run = ran(actor, fabric, documents=(replace(NOTES, origin=KEPT), typed))
    found = scenario_capture(actor=actor, run_id=run.id)
    assert [one.origin for one in found.view.readable().workload.documents] == [KEPT, ""]
    assert [one.origin for one in build_work(found.view.readable()).documents] == [KEPT, ""]
    assert found.view.source.count("origin") == 1, "what has none says nothing"
    with pytest.raises(Unreadable, match="is no origin as a captured scenario has it"):
        parse_scenario(found.view.source.replace("sha256", "sha"))


@pytest.mark.parametrize("torn", ["a PDF", "[]", '{"kind": "PDF"}', KEPT.replace("sha256", "sha")])
def test_what_is_no_origin_is_refused(torn):
    with pytest.raises(ValidationError, match="is no origin as a captured scenario has it; leave it out"):
        Attached(name="notes.md", text=NOTES.text, origin=torn)
    assert Attached(name="notes.md", text=NOTES.text, origin=KEPT).origin == KEPT


def test_documents_that_were_erased_are_said(actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    Attachment.objects.filter(run_id=run.id).update(text="")
    found = scenario_capture(actor=actor, run_id=run.id)
    assert "the text of its documents was erased: they are left out" in found.left_out
    assert "Not repeated: the text of its documents was erased" in found.view.readable().description


@pytest.mark.parametrize("name", ["No Name", "x" * 101])
def test_what_is_no_name_is_refused(actor, name):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    with pytest.raises(Refused) as refused:
        scenario_capture(actor=actor, run_id=run.id, name=name)
    assert (refused.value.code, refused.value.field) == ("invalid", "name")


def test_the_command_captures_and_plays(actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    assert scenario("capture", run.id, "--name", "what-broke")[:2] == (0, "what-broke is in the library\n")
    code, out, err = scenario("run", "what-broke", "small")
    assert out.startswith("1 of 1 tiers passed"), err
    assert code == 0
    assert scenario("capture", "nosuch")[0] == 2
