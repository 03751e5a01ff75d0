"""The right to contents where no GET asks: exports, sockets, reviews, places, drills, captured scenarios, and what is made of an earlier run."""

from __future__ import annotations

import io
import json
from html import unescape
from zipfile import ZipFile

import pytest
from django.test import Client

from console.live.admission import Credentials, admissions
from console.live.reader import RunKey
from console.pages.runs.live_source import DatabaseSource
from fabric.core.people.actor import Actor
from fabric.core.people.roles import RIGHTS, Right, Role
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Attachment, Event, Review, Run
from fabric.selectors.contents import UNREAD, UNREAD_LINE
from fabric.selectors.overview.search import search
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import batch_drill
from simulator.drills.library.captures import scenario_capture
from simulator.drills.models.tables import Drill
from simulator.drills.services.drills import drill_ask
from tests.console.site.access.contents_marked import MARKS, mark, mark_all
from tests.console.site.access.test_contents import body, told, world
from tests.fabric.services.world import COSTLY, NOTES, ran
from tests.people import fresh, member, signed_in, token_of
from tests.simulator.drills.library.test_captures import FAILING

__all__ = ["told", "world"]

NOT_READING = sorted(set(Role) - RIGHTS[Right.CONTENTS])


def marks_in(said: str) -> set[str]:
    return {name for name in MARKS if mark(name) in said}


def program_of(name: str, *roles: str) -> Client:
    secret = token_of(member(name, *roles), f"of-{name}")
    return Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}")


def posted(client: Client, path: str, **sent: object) -> str:
    answer = client.post(path, json.dumps(sent), content_type="application/json")
    return body(answer)


def test_who_looks_on_reads_no_contents():
    assert set(NOT_READING) == {Role.FINANCE, Role.AUDITOR, Role.VIEWER}


# -- exports ---------------------------------------------------------------------------------------------------------


def test_exports_hold_contents_for_who_may_read_them_alone(told):
    expected = {Role.EDITOR: {"memory", "words"}, Role.VIEWER: set(), Role.AUDITOR: set()}
    for role, marks in expected.items():
        assert marks_in(posted(told.programs[role], "/api/v1/fabrics/small/memories/export")) == marks
        exported = told.browsers[role].post("/fabrics/small/memory/notes/export")
        assert exported.status_code == 200
        assert marks_in(body(exported)) == marks
    line = json.loads(posted(told.programs[Role.VIEWER], "/api/v1/fabrics/small/memories/export").splitlines()[0])
    assert line["value"] == {"withheld": UNREAD, "bytes": len(json.dumps(mark("memory")))}


def test_exports_of_who_audits_hold_no_contents(told):
    auditor = told.browsers[Role.AUDITOR]
    for path, form in (
        ("/reviews/history/export", "csv"),
        ("/reviews/history/export", "ndjson"),
        ("/audit/export", "ndjson"),
    ):
        answer = auditor.post(path, {"form": form})
        assert answer.status_code == 200, path
        assert marks_in(body(answer)) == set(), path
    assert marks_in(posted(told.programs[Role.AUDITOR], "/api/v1/decisions/export", form="csv")) == set()


@pytest.mark.parametrize("run", ["journal", "bundle"])
def test_a_run_byte_for_byte_is_for_who_may_read_it(told, run):
    run_id = told.of["run_id"]
    both = signed_in(member("both", "auditor", "reader"))
    for client, status in ((told.browsers[Role.AUDITOR], 403), (told.browsers[Role.READER], 403), (both, 200)):
        if run == "journal":
            answer = client.get(f"/runs/{run_id}/events.ndjson?form=journal")
        else:
            answer = client.post(f"/runs/{run_id}/export")
        assert answer.status_code == status
        if status == 403:
            assert "that is for auditor or owner" in body(answer)
            assert marks_in(body(answer)) == set()


# -- sockets ---------------------------------------------------------------------------------------------------------


def test_a_socket_shows_contents_to_who_may_read_them_alone(told):
    for run_id in Run.objects.values_list("id", flat=True):
        workspace = Run.objects.get(id=run_id).workspace_id
        shown = {}
        for reads in (True, False):
            batch = DatabaseSource().read(RunKey(workspace, run_id, reads), 0, 200)
            shown[reads] = "".join([*(row.html for row in batch.rows), *(panel.html for panel in batch.head.panels)])
        assert "title" in marks_in(shown[True])
        assert marks_in(shown[False]) == set()


def test_a_socket_is_let_in_with_the_right_of_its_person(told):
    run_id = told.of["run_id"]
    for role in Role:
        cookie = next(value.value for name, value in told.browsers[role].cookies.items() if "session" in name)
        (found,) = admissions([(Credentials(cookie), run_id)]).values()
        assert found.key is not None
        assert found.key.reads is (role in RIGHTS[Right.CONTENTS])


def test_a_look_over_answers_each_reader_of_a_run(told, actor):
    keys = [RunKey(actor.workspace_id, told.of["run_id"], reads) for reads in (True, False)]
    assert set(DatabaseSource().reach(keys)) == set(keys)


# -- reviews ---------------------------------------------------------------------------------------------------------


def test_whom_a_review_asks_reads_it_and_not_its_run(actor):
    run = ran(actor, fabric_publish(actor=actor, source=COSTLY).name)
    (item,) = list_open_reviews(actor, run.id)
    mark_all()
    fay, ben = signed_in(member("fay", "finance")), signed_in(member("ben", "viewer"))
    assert {"sentence", "title"} <= marks_in(body(fay.get(f"/reviews/{item.id}")))
    assert UNREAD not in unescape(body(fay.get(f"/reviews/{item.id}")))
    assert marks_in(body(fay.get(f"/runs/{run.id}/events/1"))) == set()
    page = unescape(body(ben.get(f"/reviews/{item.id}")))
    assert (marks_in(page), UNREAD in page) == (set(), True)


def test_a_review_says_what_it_is_about_to_who_may_not_read_it(told):
    program = told.programs[Role.VIEWER]
    item = Review.objects.filter(item="pre_action")[0]
    found = program.get(f"/api/v1/reviews/{item.id}").json()
    assert found["content"]["withheld"] == UNREAD
    assert found["content"]["bytes"] > 0
    assert found["content"]["tool"] == "pay"
    assert (found["reason"], found["run_title"], found["withheld"]) == (UNREAD_LINE, UNREAD_LINE, False)
    assert found["digest"] == item.digest


# -- what is said in its place ---------------------------------------------------------------------------------------


def test_that_a_content_is_there_is_told_with_its_kind_size_digest_and_time(told):
    run_id = told.of["run_id"]
    viewer, program = told.browsers[Role.VIEWER], told.programs[Role.VIEWER]
    first = program.get(f"/api/v1/runs/{run_id}/events").json()["events"][0]
    size = len(Event.objects.get(run_id=run_id, seq=1).payload)
    assert first["content"] == {"withheld": UNREAD, "bytes": size}
    assert first["payload"]["kind"] == "run_started"
    assert first["payload"]["content_ref"]
    assert first["timestamp"] > 0
    for path in (f"/runs/{run_id}", f"/runs/{run_id}?view=io", f"/runs/{run_id}/events/1"):
        page = unescape(body(viewer.get(path)))
        assert UNREAD in page, path
        assert UNREAD not in unescape(body(told.browsers[Role.EDITOR].get(path))), path
    assert NOTES.name in body(viewer.get(f"/runs/{run_id}?view=io"))


def test_pages_that_are_contents_alone_say_for_whom_they_are(told):
    run_id = told.of["run_id"]
    for path in ("events/1/json", "fork/1", "scenario"):
        answer = told.browsers[Role.VIEWER].get(f"/runs/{run_id}/{path}")
        assert answer.status_code == 403
        assert "that is for editor, operator, owner, reader, reviewer or safety" in body(answer)


# -- places ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def placed(told) -> Actor:
    """A member who sees the workspace and reads one fabric."""
    return fresh(member("pia", "viewer", "editor@doubtful"))


def test_a_role_at_a_fabric_reads_its_contents_and_no_others(told, placed):
    program = program_of("pio", "viewer", "reader@doubtful")
    titles = {one["fabric"]: one["title"] for one in program.get("/api/v1/runs").json()["runs"]}
    assert mark("title") in titles["doubtful"]
    assert {titles[name] for name in ("paying", "talking", "small")} == {UNREAD_LINE}
    assert {hit.fabric_name for hit in search(placed, mark("title")).runs} == {"doubtful"}
    found = program.get("/api/v1/runs", {"fabric": "doubtful"}).json()["runs"][0]["id"]
    assert "request" in marks_in(body(program.get(f"/api/v1/runs/{found}/events")))
    other = program.get("/api/v1/runs", {"fabric": "small"}).json()["runs"][0]["id"]
    assert marks_in(body(program.get(f"/api/v1/runs/{other}/events"))) == set()


def test_documents_are_carried_from_no_run_that_one_may_not_read(told, placed):
    run_id = Attachment.objects.filter(run__fabric__name="small")[0].run_id
    pia = signed_in(member("pam", "viewer", "editor@doubtful"))
    sent = {"fabric": "doubtful", "text": "Why?", "documents_of": run_id, "start_key": "k"}
    answer = pia.post("/runs/start", sent)
    assert answer.status_code == 403
    assert not Run.objects.filter(created_by="pam").exists()


# -- drills and scenarios --------------------------------------------------------------------------------------------


def test_a_drills_run_is_read_by_who_may_read_its_fabric(actor, small):
    asked = drill_ask(actor=actor, fabric="small", cells=[(FailureType.PROVIDER, Tier.BATCH)], seed=7)
    batch_drill(asked.batch, "h")
    run_id = Drill.objects.get(batch=asked.batch).run_id
    mark_all()
    for roles, reads in ((("reader",), True), (("viewer",), False), (("viewer", "editor@small"), True)):
        client = signed_in(member(f"w{len(roles)}{roles[0]}", *roles))
        page = body(client.get(f"/runs/{run_id}?view=io"))
        assert (mark("title") in page) is reads, roles


def test_what_was_captured_of_a_run_is_there_for_who_may_read_that(actor, owner):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    scenario_capture(actor=actor, run_id=run.id, name="what-broke")
    reader, viewer = signed_in(member("rae", "reader")), signed_in(member("ben", "viewer"))
    assert "what-broke" in body(reader.get("/scenarios"))
    assert "what-broke" not in body(viewer.get("/scenarios"))
    assert viewer.get("/scenarios/what-broke").status_code == 404


def test_the_bundle_of_who_may_read_it_is_whole(told):
    both = signed_in(member("both", "auditor", "reader"))
    packed = body_bytes(both.post(f"/runs/{told.of['run_id']}/export"))
    with ZipFile(io.BytesIO(packed)) as archive:
        (events,) = (name for name in archive.namelist() if name.endswith("events.ndjson"))
        assert mark("request").encode() in archive.read(events)


def body_bytes(answer: object) -> bytes:
    return answer.getvalue()  # type: ignore[attr-defined]
