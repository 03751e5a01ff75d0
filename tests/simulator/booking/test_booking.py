"""The booking service over real HTTP: each thing is done once a key, and its ledger says what was done."""

import os
import re
import subprocess
import sys

import httpx2
import pytest

from simulator.booking import BookingDesk, Faults, Ledger, entries
from simulator.endpoint import ScriptedEndpoint
from simulator.installation.database import ROOT
from tests.console.launch.started_processes import PATIENCE_S, Lines, started

CALL = {"X-Fabric-Call": "run-1/fan_out.0.e0.r0.t0.c0/2"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.ndjson"


@pytest.fixture
def ask(path):
    with Serving(path) as asked:
        yield asked


class Serving:
    """A booking service on a ledger; called, it asks and gives the response."""

    def __init__(self, path, faults=None):
        self.ledger = Ledger(path)
        self.endpoint = ScriptedEndpoint(BookingDesk(self.ledger, faults).reply, keep=False)

    def __enter__(self):
        self.endpoint.__enter__()
        return self

    def __exit__(self, *error):
        self.endpoint.__exit__(*error)
        self.ledger.close()

    def __call__(self, method, path, body=None, key="", **headers):
        given = {**CALL, **({"Idempotency-Key": key} if key else {}), **headers}
        url = f"http://{self.endpoint.authority}{path}"
        return httpx2.request(method, url, json=body, headers=given, timeout=PATIENCE_S)


def book(ask, key="k1", kind="room"):
    return ask("POST", "/bookings", {"kind": kind, "nights": 2}, key)


def test_a_booking_is_made_once_a_key(ask, path):
    first, again = book(ask), book(ask)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json() == {"id": "b-1", "kind": "room", "status": "booked"}
    assert book(ask, "k2").json()["id"] == "b-2"
    assert len(ask("GET", "/bookings").json()["bookings"]) == 2
    assert [(entry.key, entry.applied) for entry in entries(path)] == [("k1", True), ("k1", False), ("k2", True)]


def test_a_line_of_the_ledger_names_the_attempt(ask, path):
    book(ask)
    (entry,) = entries(path)
    assert (entry.n, entry.kind, entry.run, entry.command, entry.attempt) == (
        1,
        "book",
        "run-1",
        "fan_out.0.e0.r0.t0.c0",
        2,
    )
    assert entry.about == {"id": "b-1", "kind": "room"}


def test_the_same_key_for_something_else_is_refused(ask, path):
    book(ask)
    assert book(ask, kind="car").status_code == 409
    assert len(entries(path)) == 1


def test_a_booking_is_cancelled_by_its_result_by_its_key_and_by_its_id(ask, path):
    for number in (1, 2, 3):
        book(ask, f"k{number}")
    by_result = {"key": "k1", "args": {"kind": "room"}, "result": {"id": "b-1"}}
    assert ask("POST", "/bookings/cancel", by_result, "c1").json() == {"id": "b-1", "status": "cancelled"}
    unknown_outcome = {"key": "k2", "args": {"kind": "room"}, "result": None}
    assert ask("POST", "/bookings/cancel", unknown_outcome, "c2").json() == {"id": "b-2", "status": "cancelled"}
    assert ask("DELETE", "/bookings/b-3", key="c3").json() == {"id": "b-3", "status": "cancelled"}
    assert ask("GET", "/bookings/b-3").json()["status"] == "cancelled"
    assert [entry.applied for entry in entries(path) if entry.kind == "cancel"] == [True, True, True]


def test_cancelling_twice_changes_nothing_the_second_time(ask, path):
    book(ask)
    for key in ("c1", "c1", "c2"):
        assert ask("POST", "/bookings/cancel", {"key": "k1"}, key).json() == {"id": "b-1", "status": "cancelled"}
    assert [entry.applied for entry in entries(path) if entry.kind == "cancel"] == [True, False, False]


def test_cancelling_what_was_never_booked_says_so(ask):
    assert ask("POST", "/bookings/cancel", {"key": "k9"}, "c1").json() == {"id": "", "status": "unknown"}


def test_the_status_of_a_key_tells_what_became_of_a_request_without_an_answer(ask):
    book(ask)
    assert ask("GET", "/bookings/status?key=k1").json() == {"id": "b-1", "kind": "room", "status": "booked"}
    assert ask("GET", "/bookings/status?key=k2").json()["status"] == "unknown"


@pytest.mark.parametrize(
    ("method", "where", "body", "status"),
    [
        ("POST", "/bookings", {"nights": 1}, 400),
        ("POST", "/bookings", [], 400),
        ("POST", "/bookings/cancel", {}, 400),
        ("POST", "/bookings/cancel", {"result": {"id": "b-9"}}, 404),
        ("DELETE", "/bookings/b-9", None, 404),
        ("GET", "/bookings/b-9", None, 404),
        ("PUT", "/bookings", {}, 404),
        ("GET", "/bookings/b-1/rooms", None, 404),
        ("GET", "/hotels", None, 404),
    ],
)
def test_a_request_that_makes_no_sense_gets_a_sentence_and_leaves_no_line(ask, path, method, where, body, status):
    answer = ask(method, where, body, "k")
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert entries(path) == []


def test_an_answer_is_lost_once_and_the_booking_stands(path):
    with Serving(path, Faults(lost=1.0)) as ask:
        with pytest.raises(httpx2.RemoteProtocolError):
            book(ask)
        assert book(ask).json() == {"id": "b-1", "kind": "room", "status": "booked"}
    assert [entry.applied for entry in entries(path)] == [True, False]


def test_a_request_is_refused_once_and_nothing_was_booked(path):
    with Serving(path, Faults(refused=1.0)) as ask:
        assert book(ask).status_code == 503
        assert entries(path) == []
        assert book(ask).status_code == 201


def test_what_was_booked_is_known_after_a_restart(path):
    with Serving(path) as ask:
        book(ask)
        book(ask, "k2")
        ask("POST", "/bookings/cancel", {"key": "k2"}, "c2")
    with path.open("a") as ledger:
        ledger.write('{"n": 4, "at": 1')  # It was killed while it wrote.
    with Serving(path) as ask:
        assert book(ask).json()["id"] == "b-1"
        assert book(ask, "k3").json()["id"] == "b-3"
        assert ask("GET", "/bookings/b-2").json()["status"] == "cancelled"
    assert [entry.n for entry in entries(path)] == [1, 2, 3, 4, 5]


def test_the_command_serves_and_says_where(tmp_path):
    environment = {**os.environ, "FABRIC_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, str(ROOT / "manage.py"), "booking", "--port", "0"]
    with started(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        said = Lines(process.stdout.fileno()).until("Booking service at ")
        url = re.search(r"http://\S+/bookings", said)[0]
        assert httpx2.post(url, json={"kind": "room"}, timeout=PATIENCE_S).status_code == 201
    assert [entry.kind for entry in entries(tmp_path / "booking.ndjson")] == ["book"]


@pytest.mark.parametrize("options", [["--lost", "2"], ["--lost", "0.6", "--slow", "0.6"], ["--port", "1"]])
def test_the_command_refuses_what_makes_no_sense(tmp_path, options):
    if options == ["--port", "1"]:
        options = ["--ledger", str(tmp_path / "no" / "such" / "folder")]
    environment = {**os.environ, "FABRIC_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, str(ROOT / "manage.py"), "booking", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
