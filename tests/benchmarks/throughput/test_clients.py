"""The clients' end of the benchmark's conversation."""

from __future__ import annotations

from io import StringIO

from tests.benchmarks.throughput.clients import serve


def conversation(heard: str) -> list[str]:
    made = iter(f"run-{n}" for n in range(100))
    said = StringIO()
    serve(lambda: next(made), StringIO(heard), said)
    return said.getvalue().splitlines()


def test_no_more_runs_are_unfinished_than_were_asked_for():
    assert conversation("go 5 2\n") == ["offer run-0", "offer run-1"]
    assert conversation("go 5 2\nended run-0\n") == ["offer run-0", "offer run-1", "offer run-2"]


def test_it_is_done_when_every_run_is_over():
    ended = "".join(f"ended run-{n}\n" for n in range(3))
    assert conversation("go 3 2\n" + ended) == ["offer run-0", "offer run-1", "offer run-2", "done"]
    assert conversation("go 1 8\nended run-0\ngo 1 8\nended run-1\n") == ["offer run-0", "done", "offer run-1", "done"]
