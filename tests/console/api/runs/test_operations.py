"""Runs over the API: starting, listing, looking at one, cancelling."""

from __future__ import annotations

import base64
import hashlib
from uuid import uuid4

import pytest

from fabric.adapters.documents.attachments import BYTES_MAX
from fabric.models import Attachment, Fabric, Run
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import TEXT_BYTES_MAX
from tests.fabric.adapters.documents import files as made
from tests.fabric.services.world import SMALL, TYPED, ran

RUNS = "/api/v1/runs"
ASKED = {"fabric": "small", "text": "What do the notes say?"}
NOTES = {"name": "notes.md", "text": "The budget is 40 dollars. The deadline is Friday."}


def keyed(key):
    return {"Idempotency-Key": key}


class TestStarting:
    def test_a_run_is_started_and_waits_for_a_worker(self, program, small):
        answer = program.post(RUNS, {**ASKED, "documents": [NOTES], "tier": "batch", "session_key": "s-1"})
        assert answer.status_code == 201
        run = answer.json()
        assert answer.headers["Location"] == f"{RUNS}/{run['id']}"
        assert (run["state"], run["fabric"], run["tier"], run["session_key"]) == ("queued", "small", "batch", "s-1")
        assert (run["documents"], run["priority"], run["created_by"]) == (["notes.md"], "low", "owner")
        assert Attachment.objects.get(run_id=run["id"]).text == NOTES["text"]

    def test_without_a_key_each_request_starts_one(self, program, small):
        assert program.post(RUNS, ASKED).json()["id"] != program.post(RUNS, ASKED).json()["id"]

    def test_the_same_key_and_body_is_the_same_run(self, program, small):
        first, second = (program.post(RUNS, ASKED, headers=keyed("k-1")) for _ in range(2))
        assert (first.status_code, second.status_code) == (201, 200)
        assert first.json()["id"] == second.json()["id"]
        assert first.headers["Location"] == second.headers["Location"]
        assert Run.objects.count() == 1

    @pytest.mark.parametrize("other", [{"text": "Something else?"}, {"tier": "batch"}, {"documents": [NOTES]}])
    def test_the_same_key_with_another_body_is_refused(self, program, small, other):
        first = program.post(RUNS, ASKED, headers=keyed("k-1")).json()
        answer = program.post(RUNS, {**ASKED, **other}, headers=keyed("k-1"))
        assert answer.status_code == 409
        assert first["id"] in answer.json()["detail"]
        assert answer.json()["errors"][0]["path"] == "Idempotency-Key"
        assert Run.objects.count() == 1

    @pytest.mark.parametrize("key", ["", "with space", "k" * 201, "umläut"])
    def test_a_key_that_is_no_key(self, program, small, key):
        answer = program.post(RUNS, ASKED, headers=keyed(key))
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "Idempotency-Key"

    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            ({"fabric": 7}, "fabric"),
            ({"text": ""}, "text"),
            ({"text": " \n "}, "text"),
            ({"text": None}, "text"),
            ({"tier": "express"}, "tier"),
            ({"priority": "soon"}, "priority"),
            ({"session_key": "s" * 201}, "session_key"),
            ({"colour": "red"}, "colour"),
            ({"documents": "notes"}, "documents"),
            ({"documents": [NOTES] * 9}, "documents"),
            ({"documents": [NOTES, {"name": "a.md"}]}, "documents.1"),
            ({"documents": [{**NOTES, "base64": "YQ=="}]}, "documents.0"),
            ({"documents": [{"name": "a.pdf", "base64": "%%%"}]}, "documents.0.base64"),
            ({"documents": [{"name": "a.png", "base64": "iVBORw0KGgo="}]}, "documents.0"),
            ({"documents": [NOTES, {"name": "a.pdf", "text": "%PDF-1.7"}]}, "documents.1"),
            ({"documents": [{"name": "a.md", "text": "\u0000"}]}, "documents.0"),
            ({"documents": [{**NOTES, "size": 3}]}, "documents.0.size"),
        ],
    )
    def test_what_is_wrong_is_said_where_it_is(self, program, small, wrong, path):
        answer = program.post(RUNS, {**ASKED, **wrong})
        assert answer.status_code == 422
        assert [error["path"] for error in answer.json()["errors"]] == [path]
        assert Run.objects.count() == 0

    def test_a_file_comes_in_base64_and_the_answer_says_what_was_read(self, program, small):
        data = made.pdf("The budget is 40 dollars.", "")
        report = {"name": "report.pdf", "base64": base64.b64encode(data).decode()}
        answer = program.post(RUNS, {**ASKED, "documents": [NOTES, report]})
        assert answer.status_code == 201
        notes, told = answer.json()["attached"]
        assert told == {
            "name": "report.pdf",
            "kind": "PDF",
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "characters": len("[page 1]\nThe budget is 40 dollars.\n\n[page 2]\n\n"),
            "pages": 2,
            "sheets": [],
            "rows": 0,
            "notes": ["no text on page 2"],
            "excerpt": "The budget is 40 dollars.",
        }
        assert (notes["kind"], notes["pages"]) == ("text", 0)
        assert answer.json()["documents"] == ["notes.md", "report.pdf"]

    def test_a_tier_that_the_fabric_does_not_allow(self, program, actor):
        fabric_publish(actor=actor, source=SMALL + "tiers: {default: batch, allowed: [batch]}\n")
        answer = program.post(RUNS, {**ASKED, "tier": "interactive"})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "tier"
        assert "batch" in answer.json()["detail"]

    def test_everything_that_is_missing_is_named(self, program, small):
        errors = program.post(RUNS, {}).json()["errors"]
        assert [error["path"] for error in errors] == ["fabric", "text"]

    @pytest.mark.parametrize("body", [None, [], "run", 7])
    def test_a_body_that_is_no_object(self, program, small, body):
        assert program.post(RUNS, body).status_code == 422

    def test_no_body_at_all(self, program, small):
        answer = program.post(RUNS, raw=b"")
        assert answer.status_code == 422
        assert answer.json()["detail"] == "The body is missing: send it."

    def test_an_unknown_fabric(self, program, small):
        answer = program.post(RUNS, {**ASKED, "fabric": "large"})
        assert answer.status_code == 404
        assert "small" in answer.json()["detail"]

    @pytest.mark.parametrize(
        "large",
        [
            {"text": "ü" * (TEXT_BYTES_MAX // 2 + 1)},
            {"documents": [{"name": "a.md", "text": "ü" * (BYTES_MAX // 2 + 1)}]},
        ],
    )
    def test_what_is_too_large(self, program, small, large):
        assert program.post(RUNS, {**ASKED, **large}).status_code == 413

    def test_the_largest_that_is_allowed(self, program, small):
        documents = [{"name": f"{n}.txt", "text": "x" * BYTES_MAX} for n in range(8)]
        answer = program.post(RUNS, {"fabric": "small", "text": "t" * TEXT_BYTES_MAX, "documents": documents})
        assert answer.status_code == 201
        assert len(answer.json()["documents"]) == 8


class TestListing:
    def test_a_page_at_a_time(self, program, small):
        made = [program.post(RUNS, ASKED).json()["id"] for _ in range(5)]
        seen, cursor = [], None
        while True:
            page = program.get(RUNS, limit=2, **({"cursor": cursor} if cursor else {})).json()
            seen += [run["id"] for run in page["runs"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == made[::-1]

    def test_filters(self, program, small, doubtful):
        program.post(RUNS, ASKED)
        program.post(RUNS, {**ASKED, "fabric": "doubtful", "tier": "batch"})

        def names(**query):
            return [run["fabric"] for run in program.get(RUNS, **query).json()["runs"]]

        assert names(fabric="small") == names(tier="interactive") == ["small"]
        assert names(tier="batch", state="queued") == ["doubtful"]
        assert names(state="completed") == names(fabric="nowhere") == names(fabric="small", tier="batch") == []

    @pytest.mark.parametrize(
        ("query", "path"),
        [
            ({"state": "asleep"}, "state"),
            ({"tier": "express"}, "tier"),
            ({"limit": 0}, "limit"),
            ({"limit": 201}, "limit"),
            ({"limit": "many"}, "limit"),
            ({"limit": "9" * 5000}, "limit"),
            ({"cursor": "yesterday"}, "cursor"),
            ({"cursor": "1" * 201}, "cursor"),
            ({"sort": "title"}, "sort"),
            ({"q": "started:today", "zone": "Mars"}, "zone"),
            ({"sort": "-cost", "q": "state:running"}, "sort"),
            ({"order": "cost"}, "order"),
            ({"q": "cost:much"}, "q"),
            ({"q": "x" * 501}, "q"),
            ({"q": "state:failed", "tier": "batch"}, "tier"),
            ({"sort": "cost", "waits_for": "person"}, "waits_for"),
            ({"q": "", "cursor": "yesterday"}, "cursor"),
            ({"sort": "cost", "cursor": "yesterday"}, "cursor"),
            ({"limit": [1, 2]}, "limit"),
        ],
    )
    def test_what_is_wrong_is_said_where_it_is(self, program, query, path):
        answer = program.get(RUNS, **query)
        assert answer.status_code == 422
        assert [error["path"] for error in answer.json()["errors"]] == [path]

    def test_a_query_in_an_order_a_page_at_a_time(self, program, small):
        made = [program.post(RUNS, ASKED).json()["id"] for _ in range(6)]
        for number, run_id in enumerate(made[:5]):
            changed = {"cost_usd_micros": 100 - number // 2, "state": "failed", "ended_at": 2**50}
            Run.objects.filter(id=run_id).update(**changed, fired="\nbudget\n" if number else "")
        for sort in ("-cost", "cost"):
            seen, cursor = [], None
            while True:
                asked = {"q": "fired:budget state:failed,queued", "sort": sort, "limit": 2}
                page = program.get(RUNS, **asked, **({"cursor": cursor} if cursor else {})).json()
                seen += [run["id"] for run in page["runs"]]
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            expected = [made[1], *sorted(made[2:4]), made[4]]
            assert seen == (expected if sort == "-cost" else expected[::-1])
        assert [run["id"] for run in program.get(RUNS, q="state:queued").json()["runs"]] == [made[5]]
        assert len(program.get(RUNS, q="").json()["runs"]) == 6

    def test_a_query_finds_child_runs_by_their_parent(self, program, small):
        parent, child = (program.post(RUNS, ASKED).json()["id"] for _ in range(2))
        Run.objects.filter(id=child).update(parent_run_id=parent, root_run_id=parent)
        assert [run["id"] for run in program.get(RUNS, q=f"parent:{parent}").json()["runs"]] == [child]
        assert [run["id"] for run in program.get(RUNS, q="").json()["runs"]] == [parent]

    def test_a_query_that_cannot_be_read_says_where(self, program, small):
        answer = program.get(RUNS, q="state:failed stat:x")
        assert answer.status_code == 422
        assert answer.json()["detail"] == "At character 14 of q: there is no field 'stat': did you mean state?"
        (error,) = answer.json()["errors"]
        assert (error["path"], error["start"], error["end"]) == ("q", 13, 17)

    def test_a_run_says_what_troubled_it(self, program, small):
        run_id = program.post(RUNS, ASKED).json()["id"]
        (run,) = program.get(RUNS).json()["runs"]
        assert (run["cause"], run["failure"], run["fired"]) == ("", "", [])
        trouble = {"cause": "budget_gate", "failure": "cost_overrun"}
        Run.objects.filter(id=run_id).update(**trouble, fired="\nbudget\nretry\n", reason="too dear")
        for run in (program.get(RUNS).json()["runs"][0], program.get(f"{RUNS}/{run_id}").json()):
            assert {name: run[name] for name in trouble} == trouble
            assert (run["fired"], run["reason"], run["stage"], run["revision"]) == (
                ["budget", "retry"],
                "too dear",
                "",
                1,
            )

    def test_runs_of_another_workspace_are_not_there(self, program, small, stranger):
        program.post(RUNS, ASKED)
        Run.objects.update(workspace_id=stranger.workspace_id)
        assert program.get(RUNS).json()["runs"] == program.get(RUNS, q="").json()["runs"] == []


class TestOne:
    def test_one_that_has_ended_has_its_outcome(self, program, small, actor):
        run = program.get(f"{RUNS}/{ran(actor, small).id}").json()
        assert (run["state"], run["documents"]) == ("completed", ["notes.md"])
        assert run["outcome"]["text"]
        assert run["outcome"]["partial"] is False
        assert "data" not in run["outcome"]
        assert run["created_at"] <= run["started_at"] <= run["ended_at"] <= run["deadline_at"]
        assert run["tokens"] > 0
        assert run["cost_usd_micros"] > 0

    def test_one_whose_writer_has_an_output_schema_has_its_data(self, program, actor):
        fabric_publish(actor=actor, source=TYPED)
        told = program.get(f"{RUNS}/{ran(actor, 'typed').id}").json()["outcome"]
        assert (told["data"]["total"], told["data"]["kind"], len(told["data"]["lines"])) == (3, "rise", 2)

    @pytest.mark.parametrize("run_id", [uuid4(), "1", "%00", "a" * 2000])
    def test_an_unknown_one(self, program, run_id):
        assert program.get(f"{RUNS}/{run_id}").status_code == 404

    def test_one_of_another_workspace_is_unknown(self, program, small, stranger):
        run_id = program.post(RUNS, ASKED).json()["id"]
        Run.objects.update(workspace_id=stranger.workspace_id)
        for answer in (
            program.get(f"{RUNS}/{run_id}"),
            program.get(f"{RUNS}/{run_id}/events"),
            program.post(f"{RUNS}/{run_id}/cancel", {}),
        ):
            assert answer.status_code == 404


class TestCancelling:
    def test_it_is_asked_for_once(self, program, small):
        run_id = program.post(RUNS, ASKED).json()["id"]
        first, second = (program.post(f"{RUNS}/{run_id}/cancel", {"reason": "not needed"}) for _ in range(2))
        assert first.status_code == second.status_code == 202
        assert (first.json()["recorded"], second.json()["recorded"]) == (True, False)

    def test_the_reason_may_be_left_out(self, program, small):
        run_id = program.post(RUNS, ASKED).json()["id"]
        assert program.post(f"{RUNS}/{run_id}/cancel", raw=b"").status_code == 202

    def test_one_that_has_ended(self, program, small, actor):
        answer = program.post(f"{RUNS}/{ran(actor, small).id}/cancel", {})
        assert answer.status_code == 409
        assert "completed" in answer.json()["detail"]

    def test_a_reason_that_is_too_long(self, program, small):
        run_id = program.post(RUNS, ASKED).json()["id"]
        answer = program.post(f"{RUNS}/{run_id}/cancel", {"reason": "r" * 1001})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "reason"

    def test_an_unknown_one(self, program):
        assert program.post(f"{RUNS}/{uuid4()}/cancel", {}).status_code == 404


def test_a_fabric_of_another_workspace_starts_nothing(program, small, stranger):
    Fabric.objects.update(workspace_id=stranger.workspace_id)
    assert program.post(RUNS, ASKED).status_code == 404
