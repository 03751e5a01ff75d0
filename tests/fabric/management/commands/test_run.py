"""`run` hosts the run where no worker does, reports it truthfully, and refuses bad input with one sentence."""

import pytest
from django.conf import settings

from fabric.composition import engine as wiring
from fabric.models import Run
from tests.fabric.management.console import command
from tests.fabric.services.world import SMALL

REQUEST = ("--input", "What do the notes say?")


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("The budget of the project is 40 dollars. The deadline is Friday, and it will not move.")
    return path


def test_a_run_is_hosted_here_and_its_last_line_says_how_it_ended(small, notes):
    done = command("run", "start", small, *REQUEST, "--attach", str(notes), "--json")
    assert (done.code, done.err) == (0, "")
    run = Run.objects.get()
    assert set(done.last) == {
        "advice",
        "run_id",
        "state",
        "outcome",
        "reason",
        "labels",
        "cost_usd_micros",
        "tokens",
        "tokens_by_kind",
        "events",
        "documents",
    }
    assert (done.last["run_id"], done.last["state"], done.last["reason"]) == (run.id, "completed", "finished")
    assert (done.last["cost_usd_micros"], done.last["tokens"]) == (run.cost_usd_micros, run.tokens)
    assert done.last["events"] == run.last_seq
    assert done.last["outcome"]["citations"] == ["notes.md"]
    assert "40 dollars" in done.last["outcome"]["text"]
    assert not wiring.engine_running()


def test_for_people_it_is_the_text_its_sources_and_one_line(small, notes):
    done = command("run", "start", small, *REQUEST, "--attach", str(notes))
    assert done.code == 0
    assert "40 dollars" in done.out
    assert "Sources: notes.md" in done.out
    assert done.out.strip().splitlines()[-1].startswith(f"Run {Run.objects.get().id} completed: finished ($0.00")


def test_on_a_terminal_each_event_is_a_line_on_standard_error(small):
    done = command("run", "start", small, *REQUEST, "--json", terminal=True)
    lines = done.err.splitlines()
    assert len(lines) == done.last["events"] + 2
    assert lines[0] == f"run {done.last['run_id']} (Ctrl-C detaches; times are UTC)"
    assert lines[1] == f"page {settings.FABRIC_PUBLIC_URL}/runs/{done.last['run_id']}"
    assert "Run started" in lines[2]
    assert lines[-1].endswith("completed: finished")


def test_the_request_may_be_in_a_file(small, tmp_path):
    file = tmp_path / "request.txt"
    file.write_text("\ufeffWhat is in the file?", encoding="utf-8")
    assert command("run", "start", small, "--input", f"@{file}", "--json").code == 0
    assert Run.objects.get().title == "What is in the file?"


def test_a_tier_may_be_asked_for(small):
    command("run", "start", small, *REQUEST, "--tier", "batch")
    assert Run.objects.get().tier == "batch"


def test_a_parked_run_names_its_item_and_the_command_that_decides_it(doubtful):
    done = command("run", "start", doubtful, *REQUEST, "--json")
    assert done.code == 3
    assert (done.last["state"], done.last["outcome"]) == ("waiting", None)
    assert done.last["reason"] == "the score is 0.55, and the fabric needs at least 0.70"
    item, *shown, how = done.err.splitlines()
    (review,) = done.last["reviews"]
    assert item.startswith(f"Review {review['id']} waits for owner, until "), "whom the fabric lists as reviewers"
    assert f"  digest      {review['digest']}" in shown
    verbs, digest = "approve|edit|respond|reject", review["digest"][:12]
    assert (
        how
        == f"Decide it with: python3 manage.py review decide {review['id']} {verbs} --digest {digest} [--message TEXT]"
    )


def test_a_run_that_ends_otherwise_is_exit_code_1_and_says_why(actor, tmp_path):
    source = SMALL.replace("provider: scripted", "provider: scripted\n    options: {fail: {cause: auth}}")
    (tmp_path / "f.yaml").write_text(source)
    assert command("fabric", "publish", str(tmp_path / "f.yaml")).code == 0
    done = command("run", "start", "small", *REQUEST, "--json")
    assert done.code == 1
    assert (done.last["state"], done.last["outcome"]) == ("failed", None)
    assert "the scripted model fails by script: auth" in done.last["reason"]


def test_what_fails_on_the_way_and_comes_right_is_completed_after_recovery(actor, tmp_path):
    source = SMALL.replace(
        "provider: scripted", "provider: scripted\n    options: {agents: {planner: {script: malformed, slips: 1}}}"
    )
    (tmp_path / "f.yaml").write_text(source)
    command("fabric", "publish", str(tmp_path / "f.yaml"))
    done = command("run", "start", "small", *REQUEST)
    assert done.code == 0
    assert "completed" in done.out.splitlines()[-1]


def bad_inputs(tmp_path) -> dict[str, tuple[tuple[str, ...], str]]:
    (tmp_path / "big.txt").write_text("x" * 10_000_000)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "program").write_bytes(b"\x7fELF\x02\x01")
    (tmp_path / "zeros.bin").write_bytes(b"ab\0cd")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "huge.md").write_text("x" * 1_000_001)

    def attached(name: str) -> tuple[str, ...]:
        return ("small", *REQUEST, "--attach", str(tmp_path / name))

    return {
        "unknown fabric": (("smal", *REQUEST), "no fabric is named 'smal'; there are: small"),
        "empty request": (("small", "--input", ""), "the request is empty"),
        "10 MB request": (("small", "--input", f"@{tmp_path}/big.txt"), "big.txt has 10,000,000 bytes; at most 65,536 are taken as a request"),
        "10 MB argument": (("small", "--input", "x" * 10_000_000), "the request has 10,000,000 bytes"),
        "request in another encoding": (("small", "--input", f"@{tmp_path}/latin.txt"), "latin.txt is no UTF-8 text (byte 3 is not)"),
        "binary attachment": (attached("program"), "program is a program; attach a PDF, DOCX, XLSX, CSV or text file"),
        "attachment with NUL": (attached("zeros.bin"), "zeros.bin is a binary file"),
        "empty attachment": (attached("empty.txt"), "empty.txt is empty"),
        "large attachment": (attached("huge.md"), "huge.md has 1,000,001 bytes; at most 1,000,000 are taken of a text"),
        "no attachment": (attached("none.md"), "none.md cannot be read: No such file or directory"),
        "folder": (("small", *REQUEST, "--attach", str(tmp_path)), "cannot be read: Is a directory"),
        "nine attachments": (("small", *REQUEST, *(["--attach", str(tmp_path / "empty.txt")] * 9)), "9 files are attached; at most 8 files are taken"),
        "unknown tier": (("small", *REQUEST, "--tier", "fast"), "it allows: interactive, batch, high_stakes"),
    }  # fmt: skip


BAD = (
    *(
        "unknown fabric",
        "empty request",
        "10 MB request",
        "10 MB argument",
        "request in another encoding",
        "binary attachment",
    ),
    *("attachment with NUL", "empty attachment", "large attachment", "no attachment", "folder", "nine attachments"),
    "unknown tier",
)


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(small, tmp_path, what):
    words, said = bad_inputs(tmp_path)[what]
    done = command("run", "start", *words, "--json")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not Run.objects.exists()


def test_text_that_looks_like_no_path_is_the_request(small):
    assert command("run", "start", small, "--input", "two\nlines " + "x" * 5_000).code == 0
    assert Run.objects.get().title == "two"


def test_it_shows_a_run_as_it_was_after_an_event(small):
    command("run", "start", small, *REQUEST)
    run = Run.objects.get()
    done = command("run", "show", run.id, "--at", "2")
    assert done.code == 0
    assert done.out.startswith(f"Run {run.id} as of event 2 of {run.last_seq}, ")
    for said in ("state      running", "reserved   $0", "left       $1.00 of $1.00", "retries    10 tokens left"):
        assert f"  {said}" in done.out
    last = command("run", "show", run.id, "--at", str(run.last_seq), "--json").last
    assert (last["state"], last["spent_usd_micros"], last["tokens"]) == ("completed", run.cost_usd_micros, run.tokens)
    assert last["cap_usd_micros"] - last["spent_usd_micros"] == last["left_usd_micros"]
    assert last["conversation"][0]["who"] == "planner"


@pytest.mark.parametrize(("at", "said"), [("0", "has events 1 to"), ("9999", "and no event 9999")])
def test_a_wrong_event_is_named(small, at, said):
    command("run", "start", small, *REQUEST)
    done = command("run", "show", Run.objects.get().id, "--at", at)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
