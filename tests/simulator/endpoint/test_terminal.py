"""The endpoint in a terminal, by both of its doors: what it prints and writes, how it ends, what it says to bad options."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from django.core.management import call_command

from simulator.endpoint import ScriptedEndpoint, answer
from simulator.endpoint.__main__ import main
from simulator.endpoint.player import PLAYS, write_sentence
from tests.console.launch.started_processes import PATIENCE_S, Lines, started

ROOT = Path(__file__).resolve().parents[3]
DOORS = {
    "manage.py": [sys.executable, "manage.py", "dev", "endpoint"],
    "python -m": [sys.executable, "-m", "simulator.endpoint"],
}
KEY = "sk-somebodys-own-key"


def post(url: str, **body: object) -> httpx2.Response:
    asked = {"messages": [{"role": "user", "content": "hello there"}], **body}
    headers = {"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY}
    return httpx2.post(f"{url}/chat/completions", json=asked, headers=headers, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("door", "number"), [("manage.py", signal.SIGTERM), ("manage.py", signal.SIGINT), ("python -m", signal.SIGTERM)]
)
def test_it_says_what_to_set_serves_and_ends_on_a_signal(tmp_path, door, number):
    ledger = tmp_path / "ledger.ndjson"
    command = [*DOORS[door], "--fault", "rate_limit", "--after", "1", "--times", "1", "--ledger", str(ledger)]
    environment = {**os.environ, "FABRIC_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    with started(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        lines = Lines(process.stdout.fileno())
        sentence = write_sentence("rate_limit")
        assert lines.next() == f"rate_limit: {sentence} (after 1 good answer, 1 time)"
        url, key = lines.next().split()
        assert key == "OPENAI_API_KEY=any"
        url = url.removeprefix("OPENAI_BASE_URL=")
        base = url.removesuffix("/v1")
        assert lines.next() == f"ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY=any"
        assert lines.next() == f"GOOGLE_GEMINI_BASE_URL={base} GEMINI_API_KEY=any"
        assert lines.next() == f"FABRIC_MODEL_URL={url} FABRIC_MODEL=scripted"
        assert lines.next() == "Ctrl-C ends it."
        assert [post(url).status_code for _ in range(3)] == [200, 429, 200]
        assert post(url, stream=True).text.endswith("data: [DONE]\n\n")
        path = "POST /v1/chat/completions"
        assert [lines.next().strip() for _ in range(4)] == [
            f"1 {path} key=yes: healthy 200",
            f"2 {path} key=yes: rate_limit 429",
            f"3 {path} key=yes: healthy 200",
            f"4 {path} stream key=yes: healthy 200",
        ]
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 128 + number
        assert process.stderr.read() == b""
        assert lines.rest() == []
    written = ledger.read_text()
    assert [json.loads(line)["struck"] for line in written.splitlines()] == [False, True, False, False]
    assert json.loads(written.splitlines()[0])["body"]["messages"][0]["content"] == "hello there"
    assert KEY not in written


def test_each_line_as_json():
    command = [*DOORS["python -m"], "--fault", "hang_up", "--json", "--seed", "7"]
    with started(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        lines = Lines(process.stdout.fileno())
        told = json.loads(lines.next())
        assert {**told, "url": ""} == {
            "url": "",
            "fault": "hang_up",
            "after": 0,
            "times": None,
            "delay_s": 0.0,
            "seed": 7,
        }
        with pytest.raises(httpx2.TransportError):
            post(told["url"])
        line = json.loads(lines.next())
        assert (line["number"], line["by"], line["mode"], line["key"], line["stream"]) == (
            1,
            "hang_up",
            "hang_up",
            True,
            False,
        )


def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, what was said, and what was complained of."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("simulate_endpoint", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_list_has_a_line_for_each_fault():
    code, out, _ = command("--list")
    assert code == 0
    told = {name: sentence.strip() for name, _, sentence in (line.partition(" ") for line in out.splitlines())}
    assert list(told) == list(PLAYS)
    assert all(told[name].startswith(write_sentence(name)) for name in PLAYS)
    assert told["return_redacted"].endswith(" (anthropic)")
    assert told["cooperative"] == write_sentence("cooperative")


def test_the_list_as_json():
    code, out, _ = command("--list", "--json")
    assert code == 0
    assert json.loads(out)["faults"] == [
        {"name": name, "sentence": write_sentence(name), "protocols": list(one.protocols)}
        for name, one in PLAYS.items()
    ]


BAD = {
    ("--fault", "rate-limit"): "--fault: there is no 'rate-limit'; did you mean 'rate_limit'?",
    ("--fault", ""): "--fault: there is no ''; --list lists all",
    ("--fault", "cut_after=x"): "--fault: cut_after takes a whole number from 0 on, not 'x'",
    ("--fault", "cooperative=3"): "--fault: there is no 'cooperative=3'; did you mean 'cooperative'",
    ("--port", "65536"): "--port is 65536: give a whole number from 0 to 65535",
    ("--port", "-1"): "--port is -1: give a whole number from 0 to 65535",
    ("--port", "http"): "--port is 'http': give a whole number from 0 to 65535",
    ("--after", "-1"): "--after is -1: give a whole number from 0 on",
    ("--after", "few"): "--after is 'few': give a whole number from 0 on",
    ("--times", "0"): "--times is 0: give a whole number from 1 on",
    ("--times", "1.5"): "--times is '1.5': give a whole number from 1 on",
    ("--seed", "x"): "--seed is 'x': give a whole number from 0 on",
    ("--delay", "nan"): "--delay is 'nan': give seconds from 0 to 3600",
    ("--delay", "-1"): "--delay is '-1': give seconds from 0 to 3600",
    ("--delay", "soon"): "--delay is 'soon': give seconds from 0 to 3600",
    ("--host", ""): "--host is empty, which would be every address: give one, or leave it out for 127.0.0.1",
    ("--host", "256.256.256.256"): "--host 256.256.256.256 with --port 0 cannot be listened on: ",
    (
        "--ledger",
        "no/such/folder/ledger",
    ): "--ledger: no/such/folder/ledger cannot be written: No such file or directory",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_options_get_one_sentence(arguments):
    option, text = arguments
    code, out, err = command(f"{option}={text}")
    assert (code, out) == (2, "")
    assert err.startswith(BAD[arguments])
    assert len(err.splitlines()) == 1


def test_a_port_that_is_taken_gets_one_sentence():
    with ScriptedEndpoint([answer()]) as endpoint:
        port = endpoint.authority.partition(":")[2]
        code, out, err = command("--port", port)
    assert (code, out, err) == (2, "", f"--port {port} is taken: give another, or leave it out for any free one\n")


def test_the_other_door_says_the_same(capsys):
    assert main(["--fault", "rate-limit"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("--fault: there is no 'rate-limit'; did you mean")) == ("", True)
    assert main(["--list"]) == 0


@pytest.mark.parametrize(("host", "shown"), [("::1", "http://[::1]:"), ("0.0.0.0", "http://127.0.0.1:")])
def test_another_address(host, shown):
    with ScriptedEndpoint([answer("ok")], host=host) as endpoint:
        assert endpoint.url.startswith(shown)
        assert post(endpoint.url).status_code == 200
