"""A drill's own pages and files hold no sentence for who may not read its fabric's contents; what was decided, and when, stays."""

from __future__ import annotations

import json

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Run
from fabric.selectors.contents import UNREAD_LINE
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import batch_drill
from simulator.drills.library.captures import scenario_capture
from simulator.drills.library.requests import scenario_ask
from simulator.drills.models.tables import Drill
from simulator.drills.selectors.drills import batch_get, drill_get, drills_recent
from simulator.drills.services.drills import drill_ask
from simulator.scenarios.play.verdicts import HEADLINES, Deviation, deviate
from tests.fabric.services.world import ran
from tests.people import fresh, member, signed_in
from tests.simulator.drills.library.test_captures import FAILING

WORD = "CANARY"
CELL = (FailureType.PROVIDER, Tier.BATCH)
FORMS = ("html", "json", "junit")


@pytest.fixture
def drill(actor, small):
    """A drilled cell, with a word in each sentence that may quote a content."""
    asked = drill_ask(actor=actor, fabric="small", cells=[CELL], seed=7)
    batch_drill(asked.batch, "h")
    row = Drill.objects.get(batch=asked.batch)
    body = json.loads(row.body)
    run = body["story"]["disturbed"]
    for part, field in (("moments", "said"), ("decisions", "evidence")):
        for one in run[part]:
            one[field] = f"{one[field]} {WORD}"
    Drill.objects.filter(id=row.id).update(body=json.dumps(body))
    return row.id


def test_sentences_of_its_run_are_withheld_and_what_quotes_nothing_is_not(actor, drill):
    viewer, read = fresh(member("ben", "viewer")), drill_get(actor, drill)
    assert WORD in json.dumps(read.body)
    for seen in (drill_get(viewer, drill), drills_recent(viewer)[0][0], batch_get(viewer, read.batch).drills[0]):
        assert WORD not in json.dumps(seen.body)
        told, same = (one.body["story"]["disturbed"]["decisions"] for one in (seen, read))
        assert [one["reaction"] for one in told] == [one["reaction"] for one in same]
        assert (
            told[0]["evidence"]
            == "503, attempt 1; scheduled attempt 2 in 720 ms (9.0 retries left): backoff with full jitter"
        )


def test_a_failure_s_own_words_are_not_in_what_is_shown_without_the_right(actor, drill):
    """Some sentence of this drill does quote, so that the rule is seen to tell the two apart."""
    moments = json.loads(Drill.objects.get(id=drill).body)["story"]["disturbed"]["moments"]
    quoting = [one for one in moments if one["unread"] != one["said"].removesuffix(f" {WORD}")]
    assert quoting
    assert all(UNREAD_LINE in one["unread"] for one in quoting)


def test_pages_and_files_of_a_drill_are_without_them(drill):
    reader, viewer = signed_in(member("rae", "reader")), signed_in(member("ben", "viewer"))
    addresses = [f"/drills/{drill}", f"/drills/{drill}?at=3", *(f"/drills/{drill}/report/{form}" for form in FORMS)]
    assert WORD in reader.get(addresses[1]).content.decode()
    for address in addresses:
        answer = viewer.get(address)
        assert answer.status_code == 200, address
        assert WORD not in answer.content.decode(), address


def test_a_drill_of_a_captured_scenario_gives_its_request_to_who_may_read_it(actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    Run.objects.filter(id=run.id).update(title=WORD)
    scenario_capture(actor=actor, run_id=run.id, name="what-broke")
    asked = scenario_ask(actor=actor, fabric=run.fabric_name, scenario="what-broke", tiers=[run.tier])
    batch_drill(asked.batch, "h")
    made = Drill.objects.get(batch=asked.batch)
    reader, viewer = signed_in(member("rae", "reader")), signed_in(member("ben", "viewer"))
    address = f"/drills/{made.id}/pytest"
    assert WORD in reader.get(address).content.decode()
    refused = viewer.get(address)
    assert refused.status_code == 403
    assert "An owner can give you the role reader" in refused.content.decode()
    assert WORD not in viewer.get(f"/drills/{made.id}").content.decode()


def test_the_headline_of_a_scenario_s_deviation_stays_and_what_it_quotes_goes(actor, drill):
    _, why = deviate(Deviation.STEADY, f"answer: {WORD}")
    Drill.objects.filter(id=drill).update(scenario="endpoint-down", verdict="deviated", why=why)
    seen = drill_get(fresh(member("ben", "viewer")), drill)
    assert seen.why == f"{HEADLINES[Deviation.STEADY]}: {UNREAD_LINE}"
    assert drill_get(actor, drill).why == why
