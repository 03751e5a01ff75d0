"""Approving as a person at a terminal and as a script have it: real processes, a payment service on loopback, and no engine in between."""

from __future__ import annotations

import json
import os
import pty
import time
from typing import Any

import pytest

from simulator.endpoint import ScriptedEndpoint, answer
from tests.fabric.management.test_processes import PATIENCE_S, Installation, last
from tests.fabric.services.world import PAYING

PAYEE = "Nordwind \u202eledneH\u202c\u200b GmbH \x1b[2J"
SEEN = "Nordwind ⟨U+202E⟩ledneH⟨U+202C⟩⟨U+200B⟩ GmbH \\u001b[2J"
USD = 77
PROMPT = "Approve exactly this? [y/N]"
DUE_S = 2


@pytest.fixture(scope="module")
def till():
    """Takes payments, and remembers each."""
    with ScriptedEndpoint([answer("paid")]) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, till: ScriptedEndpoint) -> Installation:
    """With two fabrics that pay once a person approved it: in their own time, and within two seconds."""
    made = Installation(tmp_path_factory.mktemp("approving") / "data")
    made.environment["FABRIC_ALLOWED_HOSTS"] = till.authority
    assert made.command("prepare").returncode == 0
    pays = PAYING.replace("https://pay.invalid", f"http://{till.authority}")
    pays = pays.replace("to: Ana, usd: 90", f"to: {json.dumps(PAYEE)}, usd: {USD}")
    hasty = pays.replace("name: paying", "name: hasty").replace(
        "run_usd_micros: 1000000}", f"run_usd_micros: 1000000}}\n  humans: {{due_s: {DUE_S}}}"
    )
    for name, source in (("paying", pays), ("hasty", hasty)):
        path = made.data.parent / f"{name}.yaml"
        path.write_text(source)
        done = made.command("fabric", "publish", str(path))
        assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def unpaid(installation: Installation) -> dict[str, Any]:
    """The review of a run that no test here approves: each command is a process, which takes long to start."""
    return asking(installation)


@pytest.fixture
def waiting(installation: Installation) -> dict[str, Any]:
    """The review of a run of its own, for a test that approves it."""
    return asking(installation)


def asking(installation: Installation) -> dict[str, Any]:
    """A run that waits with its payment, in the tier in which a person has a day: its question, as `run --json` says it."""
    done = installation.command("run", "start", "paying", "--tier", "batch", "--input", "Pay the invoice.", "--json")
    assert done.returncode == 3, done.stderr
    (review,) = last(done)["reviews"]
    return {**review, "said": done.stderr}


def shows_it_all(text: str, review: dict[str, Any]) -> bool:
    """Return True if a text shows the call, its arguments as they are, its effect, who proposed it, the digest, and what follows from each answer."""
    wanted = (
        "call        pay (irreversible)",
        "proposed by reader",
        f'to: "{SEEN}"',
        f"usd: {USD}",
        review["digest"],
        "approve     pay is called once, with exactly these arguments",
        "reject      it is not called",
        "respond     it is not called; the agent continues with your message as its result",
        "no answer   rejected by the system",
    )
    return [one for one in wanted if one not in text] == []


def test_what_is_asked_is_shown_wherever_it_is_met(installation, unpaid):
    """And nothing in it acts on the terminal."""
    item, run = unpaid["id"], unpaid["run_id"]
    assert (unpaid["tool"], unpaid["effect"], unpaid["payload"]) == (
        "pay",
        "irreversible",
        {"to": PAYEE, "usd": USD},
    )
    said = {"run": unpaid["said"]}
    for words in (("review", "show", item), ("review", "claim", item), ("explain", run)):
        done = installation.command(*words)
        assert done.returncode == 0, done.stderr
        said[words[1]] = done.stdout + done.stderr
    assert installation.command("review", "release", item).returncode == 0
    done = installation.command("review", "next", "--text", run)
    said["next"] = done.stdout + done.stderr
    installation.command("review", "release", item)
    assert [where for where, text in said.items() if not shows_it_all(text, unpaid)] == []
    listed = installation.command("review", "list")
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith(item)]
    assert f'pay(to: "{SEEN}", usd: {USD})' in line
    whole = installation.command("review", "list", "--json")
    (found,) = [one for one in last(whole)["items"] if one["id"] == item]
    assert (found["payload"], found["digest"]) == ({"to": PAYEE, "usd": USD}, unpaid["digest"])
    everything = "".join((*said.values(), listed.stdout, whole.stdout))
    assert not {"\u202e", "\u202c", "\u200b", "\x1b"} & set(everything)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing is decided: to approve what is shown above, name it with --digest "),
        (("--digest", "abc"), "at least its first 8 characters"),
        (("--digest", "0" * 12), "nothing was shown under that digest"),
    ],
    ids=["none", "too short", "another"],
)
def test_a_script_approves_nothing_unseen(installation, unpaid, till, words, says):
    before = len(till.received)
    done = installation.command("decide", unpaid["id"], "approve", *words, stdin=-3)
    assert (done.returncode, done.stdout, says in done.stderr) == (2, "", True), done.stderr
    assert shows_it_all(done.stderr, unpaid) == (not words)
    assert len(till.received) == before


def test_a_script_names_what_it_was_shown(installation, waiting, till):
    before = len(till.received)
    done = installation.command("decide", waiting["id"], "approve", "--digest", waiting["digest"][:8], "--json")
    assert (done.returncode, last(done)["state"]) == (0, "completed"), done.stderr
    (paid,) = till.received[before:]
    assert paid.body == {"to": PAYEE, "usd": USD}


def test_at_a_terminal_it_is_shown_and_confirmed(installation, waiting, till):
    before = len(till.received)
    code, screen = at_terminal(installation, ("decide", waiting["id"], "approve"), PROMPT, "y\n")
    assert shows_it_all(screen, waiting)
    assert (code, len(till.received) - before) == (0, 1), screen


@pytest.mark.parametrize("typed", ["n\n", "\x04"], ids=["no", "end"])
def test_at_a_terminal_all_else_than_yes_decides_nothing(installation, unpaid, till, typed):
    before = len(till.received)
    code, screen = at_terminal(installation, ("decide", unpaid["id"], "approve"), PROMPT, typed)
    assert shows_it_all(screen, unpaid)
    assert (code, len(till.received) - before) == (2, 0), screen
    assert "nothing is decided" in screen


def at_terminal(installation: Installation, words: tuple[str, ...], prompt: str, typed: str) -> tuple[int, str]:
    """A command on a terminal of its own, and what is typed once it asks: its exit code, and all that stood there."""
    ours, theirs = pty.openpty()
    process = installation.start(*words, stdin=theirs, stdout=theirs, stderr=theirs, text=False)
    os.close(theirs)
    screen = b""
    while prompt not in screen.decode(errors="replace"):
        screen += _read(ours) or pytest.fail(f"it ended without asking: {screen.decode(errors='replace')}")
    os.write(ours, typed.encode())
    while more := _read(ours):
        screen += more
    os.close(ours)
    return process.wait(PATIENCE_S), screen.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Return what comes next; empty at the end, which Linux tells as an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def test_an_approval_after_its_time_pays_nothing_with_no_engine_running(installation, till):
    before = len(till.received)
    asked = installation.command("run", "start", "hasty", "--input", "Pay the invoice.", "--json")
    assert asked.returncode == 3, asked.stderr
    (review,) = last(asked)["reviews"]
    time.sleep(max(0.0, review["due_at"] / 1_000_000 - time.time()) + 0.05)
    done = installation.command("decide", review["id"], "approve", "--digest", review["digest"])
    assert (done.returncode, done.stdout) == (2, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"review {review['id']} was due at 20")
    assert sentence.endswith("an answer comes too late: rejected by the system: it is not called")
    assert last(installation.command("review", "show", review["id"], "--json"))["late"]
    assert "too late" in installation.command("review", "claim", review["id"]).stderr
    assert len(till.received) == before
