"""Fabrics over the API."""

from __future__ import annotations

import json

import pytest

from fabric.models import Fabric, Revision
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.schema import fabric_schema
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.export import written_out
from tests.fabric.management.commands.test_fabric import BAD, NASTY, SECOND
from tests.fabric.services.world import SMALL, ran

LIST, LINT = "/api/v1/fabrics", "/api/v1/fabric-lint"
HERE = f"{LIST}/small"


def test_there_is_none_yet(program):
    assert program.get("/api/v1/fabrics").json() == {"fabrics": []}


def test_the_list_says_what_a_run_can_be_started_with(program, small, doubtful):
    found = program.get("/api/v1/fabrics").json()["fabrics"]
    assert [one["name"] for one in found] == ["doubtful", "small"]
    assert found[1]["example"] == "What do the notes say?"
    assert found[1]["tier"] in found[1]["tiers"]


def test_one_with_its_revisions(program, small, actor):
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "A second title"))
    found = program.get("/api/v1/fabrics/small").json()
    assert (found["title"], found["revision"]) == ("A second title", 2)
    assert [(one["number"], one["current"]) for one in found["revisions"]] == [(2, True), (1, False)]
    assert found["revisions"][0]["digest"] == found["digest"] != found["revisions"][1]["digest"]


def test_an_unknown_one_is_404_and_the_names_are_told(program, small):
    answer = program.get("/api/v1/fabrics/large")
    assert answer.status_code == 404
    assert "small" in answer.json()["detail"]


def test_one_of_another_workspace_is_unknown(program, small, stranger):
    Fabric.objects.update(workspace_id=stranger.workspace_id)
    assert program.get("/api/v1/fabrics/small").status_code == 404
    assert program.get("/api/v1/fabrics").json() == {"fabrics": []}


def test_what_a_success_costs(program, small, actor):
    nothing = program.get("/api/v1/fabrics/small/cost-per-success").json()
    assert (nothing["parts"], nothing["whole"]["per_success_usd_micros"], nothing["days"]) == ([], None, 7)
    run = ran(actor, small)
    found = program.get("/api/v1/fabrics/small/cost-per-success", days=1).json()
    assert found["parts"][0] | {"revision": None, "tier": None} == found["whole"]
    assert found["whole"]["per_success_usd_micros"] == found["whole"]["cost_usd_micros"] == run.cost_usd_micros > 0
    assert program.get("/api/v1/fabrics/small/cost-per-success", days=91).status_code == 422
    assert program.get("/api/v1/fabrics/large/cost-per-success").status_code == 404


class TestPublishing:
    def test_it_is_published_once(self, program, actor):
        first = program.post(LIST, {"source": SMALL, "origin": "small.yaml"})
        assert first.status_code == 200
        told = first.json()
        assert (told["name"], told["revision"], told["changed"], told["was"]) == ("small", 1, True, None)
        assert program.post(LIST, {"source": SMALL}).json() == {**told, "changed": False, "was": 1}
        assert program.get(HERE).json()["revision"] == 1

    def test_its_message_is_kept_with_the_revision(self, program, small):
        program.post(LIST, {"source": SECOND, "message": "A better title."})
        revisions = program.get(HERE).json()["revisions"]
        assert [one["message"] for one in revisions] == ["A better title.", ""]
        assert program.post(LIST, {"source": SMALL, "message": "x" * 4_001}).status_code == 422

    def test_a_dry_run_says_what_would_change(self, program, small):
        told = program.post(LIST, {"source": SECOND, "dry_run": True}).json()
        assert (told["revision"], told["was"], told["dry_run"], told["new"]) == (2, 1, True, True)
        change = {"path": "title", "kind": "changed", "before": "A small fabric", "after": "A better fabric"}
        assert told["changes"] == [change]
        assert Revision.objects.count() == 1

    @pytest.mark.parametrize("dry", [False, True])
    def test_another_revision_than_expected_is_409(self, program, small, dry):
        answer = program.post(LIST, {"source": SECOND, "expect_revision": 4, "dry_run": dry})
        assert answer.status_code == 409
        assert answer.json()["errors"][0]["path"] == "expect_revision"
        assert Revision.objects.count() == 1

    def test_each_problem_has_its_path_and_line(self, program, actor):
        answer = program.post(LIST, {"source": BAD.replace("[read_document]", "[reed]"), "origin": "small.yaml"})
        assert answer.status_code == 422
        told = answer.json()
        assert told["problems"] == [
            {
                "path": "agents.0.model",
                "line": 12,
                "column": 12,
                "sentence": "no model is named 'big'; there are: script",
            },
            {
                "path": "agents.1.tools",
                "line": 17,
                "column": 5,
                "sentence": "no tool is named 'reed'; there are: read_document",
            },
        ]
        assert told["errors"][0]["path"] == "source"
        assert "small.yaml, line 12" in told["detail"]

    def test_names_of_providers_are_checked(self, program, actor):
        answer = program.post(LIST, {"source": SMALL.replace("provider: scripted", "provider: oracle")})
        assert [one["path"] for one in answer.json()["problems"]] == ["models.0.provider"]

    def test_too_long_a_text(self, program, actor):
        for source in ("ä" * 140_000, "a" * 300_000):
            assert program.post(LIST, {"source": source}).status_code == 413
            (problem,) = program.post(LINT, {"source": source}).json()["problems"]
            assert "at most 262,144 are read" in problem["sentence"]

    @pytest.mark.parametrize("what", NASTY)
    def test_what_is_no_fabric_is_told_with_its_line(self, program, actor, what):
        text, said = NASTY[what]
        published, judged = program.post(LIST, {"source": text}), program.post(LINT, {"source": text})
        assert (published.status_code, judged.status_code) == (422, 200)
        problems = published.json()["problems"]
        assert judged.json()["problems"] == problems
        assert problems[0]["line"] >= 1
        assert problems[0]["sentence"].partition(": ")[0] in said or said.rpartition(": ")[2] in problems[0]["sentence"]
        assert not Fabric.objects.exists()


def test_an_older_revision_is_published_again(program, small):
    program.post(LIST, {"source": SECOND})
    told = program.post(f"{HERE}/revert", {"revision": 1, "expect_revision": 2}).json()
    assert (told["revision"], told["was"], told["changed"]) == (1, 2, True)
    assert program.post(f"{HERE}/revert", {"revision": 1}).json()["changed"] is False
    assert program.post(f"{HERE}/revert", {"revision": 9}).status_code == 404
    assert program.post(f"{LIST}/large/revert", {"revision": 1}).status_code == 404
    assert program.post(f"{HERE}/revert", {"revision": 2, "expect_revision": 2}).status_code == 409


def test_warnings_and_deviations_are_judged_and_published_with(program, actor):
    cell = (
        "decision_table:\n  provider_failure:\n    high_stakes: {rungs: [{reaction: surface}], deviation: A pilot.}\n"
    )
    source = SMALL.replace("  - name: read_document\n", "  - name: read_document\n  - name: calculator\n") + cell
    told = program.post(LINT, {"source": source}).json()
    assert (told["publishable"], told["problems"], told["name"]) == (True, [], "small")
    assert [(one["path"], one["line"]) for one in told["warnings"]] == [("tools.1", 10)]
    assert [(one["line"], one["reason"]) for one in told["deviations"]] == [(28, "A pilot.")]
    assert not Fabric.objects.exists()
    published = program.post(LIST, {"source": source}).json()
    assert published["warnings"] == ["line 10, column 5, tools.1: tool 'calculator' is used nowhere"]
    assert published["deviations"][0]["reason"] == "A pilot."


def test_the_yaml_of_a_revision(program, small, actor):
    commented = f"# Why.\r\n{SECOND}"
    fabric_publish(actor=actor, source=commented)
    answer = program.get(f"{HERE}/yaml")
    assert (answer.getvalue().decode(), answer["Content-Type"]) == (commented, "application/yaml")
    assert answer["Content-Disposition"] == 'attachment; filename="small-r2.yaml"'
    assert program.get(f"{HERE}/yaml", revision=1).getvalue().decode() == SMALL
    assert program.get(f"{HERE}/yaml", form="written").getvalue().decode() == written_out(fabric_read(SECOND).spec)
    assert program.get(f"{HERE}/yaml", revision=3).status_code == 404
    assert program.get(f"{HERE}/yaml", form="verse").status_code == 422


def test_two_revisions_are_compared(program, small, actor):
    fabric_publish(actor=actor, source=SECOND)
    told = program.get(f"{HERE}/diff", **{"from": 1, "to": 2}).json()
    assert (told["before"], told["after"], told["same"]) == ("small@1", "small@2", False)
    assert [one["path"] for one in told["changes"]] == ["title"]
    assert "-title: A small fabric\n+title: A better fabric\n" in told["text"]
    assert program.get(f"{HERE}/diff", **{"from": 2}).json()["same"] is True
    assert program.get(f"{HERE}/diff", **{"from": 5}).status_code == 404
    assert program.get(f"{HERE}/diff", before=1).status_code == 422


def test_the_schema_for_editors(program, actor):
    answer = program.get("/api/v1/fabric-schema")
    assert (json.loads(answer.getvalue()), answer["Content-Type"]) == (fabric_schema(), "application/schema+json")
