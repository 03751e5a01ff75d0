"""The product's MCP adapter against the reference servers, over both transports, and restarted in mid-session."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.reviews.requested_input import question_digest
from fabric.core.spec.mcp import McpServer
from fabric.core.texts import forms
from fabric.core.values.saga import Outcome
from fabric.http.transport import Gate
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.tools.mcp.worlds import call, children_of, gone, http, played, runner
from tests.peers import mcp_servers
from tests.servers.ports import free_port

pytestmark = [pytest.mark.peers, pytest.mark.slow]
PART_CHARS_MAX = 400
"""Of what a model is told of a picture, a blob or a link."""


def asked(server: McpServer, *calls: tuple[str, Any]) -> list[Any]:
    """Return what became of calls in one session, and what the adapter says that the server offers."""
    port = runner(server)

    async def scene() -> list[Any]:
        return [await call(port, server, name, args) for name, args in calls]

    return played(scene, port, within_s=120)


def results_of(server: McpServer, *calls: tuple[str, Any]) -> list[Any]:
    """Results of calls that succeed."""
    found = asked(server, *calls)
    assert all(isinstance(one, ToolFinished) and not one.error for one in found), found
    return [one.result for one in found]


NAMELESS: tuple[str, dict[str, Any]] = ("no-such-tool", {})
"""A call that is answered with the names of the tools that there are."""


def names_in(found: Any) -> set[str]:
    assert isinstance(found, CallFailed), found
    return set(found.message.partition("it offers: ")[2].split(", "))


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of git with one commit and one file."""
    (tmp_path / "bridge.md").write_text("It was built in 1931.")
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "The bridge"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


# -- what each offers and says -----------------------------------------------------------------------------------------


def test_everything_says_what_it_was_asked() -> None:
    names, echo, total, structured, env, steps, wrong = asked(
        mcp_servers.everything(),
        NAMELESS,
        ("echo", {"message": "Grüße"}),
        ("get-sum", {"a": 2, "b": 3}),
        ("get-structured-content", {"location": "New York"}),
        ("get-env", {}),
        ("trigger-long-running-operation", {"duration": 0.2, "steps": 4}),
        ("echo", {"text": "hello"}),
    )
    assert {"echo", "get-sum", "get-tiny-image", "get-structured-content"} <= names_in(names)
    assert (echo.result, total.result) == ("Echo: Grüße", "The sum of 2 and 3 is 5.")
    assert set(structured.result) == {"temperature", "conditions", "humidity"}  # And not its copy in words.
    assert "PATH" in env.result
    assert not [name for name in ("FABRIC_", "TEST_", "DJANGO_") if name in env.result]
    assert "completed" in steps.result  # It reports each step on the way.
    assert (wrong.outcome, wrong.result) == (Outcome.REJECTED, None)
    assert '"message" is a required property' in wrong.error


def test_pictures_and_blobs_do_not_go_to_the_model_as_text() -> None:
    found = results_of(
        mcp_servers.everything(),
        ("get-tiny-image", {}),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
        ("get-resource-links", {"count": 3}),
        ("gzip-file-as-resource", {"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
    )
    parts = [part for result in found for part in (result if isinstance(result, list) else [result])]
    assert len(parts) > len(found)
    assert all(len(str(part)) < PART_CHARS_MAX for part in parts)
    assert not [start for start in ("iVBOR", "H4sI") if start in str(found)]  # Of a picture, and of gzip.


def test_files_are_read_and_written_inside_the_folder_alone(folder: Path) -> None:
    read, written, outside = asked(
        mcp_servers.filesystem(folder),
        ("read_text_file", {"path": str(folder / "bridge.md")}),
        ("write_file", {"path": str(folder / "ferry.md"), "content": "Since 1902."}),
        ("read_text_file", {"path": "/etc/hostname"}),
    )
    assert read.result == {"content": "It was built in 1931."}
    assert not written.error
    assert (folder / "ferry.md").read_text() == "Since 1902."
    assert "outside allowed directories" in outside.error
    assert outside.outcome is Outcome.UNKNOWN


def test_the_clock_answers_in_fields() -> None:
    places = {"source_timezone": "Europe/Berlin", "time": "12:30", "target_timezone": "Asia/Tokyo"}
    names, converted, wrong = asked(
        mcp_servers.clock(), NAMELESS, ("convert_time", places), ("get_current_time", {"timezone": "No/Where"})
    )
    assert names_in(names) == {"get_current_time", "convert_time"}
    assert converted.result["target"]["timezone"] == "Asia/Tokyo"
    assert "No/Where" in wrong.error


def test_git_tells_the_history(folder: Path) -> None:
    log, outside = asked(
        mcp_servers.git(folder),
        ("git_log", {"repo_path": str(folder)}),
        ("git_log", {"repo_path": str(folder.parent)}),
    )
    assert "The bridge" in log.result
    assert "outside the allowed repository" in outside.error


def test_fetch_refuses_this_machine_unless_it_is_told_otherwise() -> None:
    page = Step(body=b"<html><body><p>The bridge is long.</p></body></html>", content_type="text/html")
    with ScriptedEndpoint([page]) as endpoint:
        asks = ("fetch", {"url": f"http://{endpoint.authority}/page", "raw": True})
        (refused,) = asked(mcp_servers.fetch(), asks)
        before = len(endpoint.received)
        (found,) = results_of(mcp_servers.fetch("--allow-private-ips", "--ignore-robots-txt"), asks)
    assert "not a public address" in refused.error
    assert before == 0
    assert "The bridge is long." in str(found)


# -- questions to a person ---------------------------------------------------------------------------------------------

ASKS = "trigger-elicitation-request"
GIVEN = {"name": "Ana", "check": True, "email": "ana@example.org", "birthdate": "1990-01-31", "integer": 7}


async def answered(port: Any, server: Any) -> tuple[Any, Any]:
    """The question of a call, and the call with its answer: the form's defaults and what a person adds."""
    found = await call(port, server, ASKS)
    assert isinstance(found, ToolFinished)
    assert found.requested is not None
    question = found.requested
    answer = forms.initial(question.schema) | GIVEN
    assert forms.misfits(question.schema, answer) == []
    digest = question_digest(question.message, question.schema)
    return found, await call(port, server, ASKS, answers={digest: answer})


def test_everything_asks_a_person_and_gets_the_answer_with_the_next_call() -> None:
    server = mcp_servers.everything()
    port = runner(server)
    found, done = played(lambda: answered(port, server), port)
    assert (found.outcome, found.requested.message) == (
        Outcome.UNKNOWN,
        "Please provide inputs for the following fields:",
    )
    assert "cancelled" in found.requested.said
    assert len(found.requested.schema["properties"]) == 13
    assert "Name: Ana" in str(done.result)


def test_everything_asks_over_streamable_http(tmp_path: Path) -> None:
    with mcp_servers.everything_over_http(tmp_path, free_port()) as where:
        server = http(where)
        port = runner(server, gate=Gate.trust_hosts([where]))
        found, done = played(lambda: answered(port, server), port)
    assert found.requested.server == server.name
    assert "Name: Ana" in str(done.result)


# -- restarted in mid-session ------------------------------------------------------------------------------------------


def test_everything_is_the_same_over_streamable_http(tmp_path: Path) -> None:
    with mcp_servers.everything_over_http(tmp_path, free_port()) as where:
        server = http(where)
        port = runner(server, gate=Gate.trust_hosts([where]))

        async def scene() -> Any:
            words = await call(port, server, "echo", {"message": "hi"})
            return words, await call(port, server, "get-tiny-image")

        words, picture = played(scene, port)
    assert words.result == "Echo: hi"
    assert "iVBOR" not in str(picture.result)


def test_a_server_that_was_restarted_is_spoken_to_in_a_new_session(tmp_path: Path) -> None:
    """The long-lived worker keeps its session; the server knows it no more and says so with an error status."""
    where = free_port()
    server = http(f"127.0.0.1:{where}")
    port = runner(server, gate=Gate.trust_hosts([f"127.0.0.1:{where}"]))
    places = [tmp_path / "first", tmp_path / "second"]

    async def scene() -> Any:
        found = []
        for place in places:
            place.mkdir()
            with mcp_servers.everything_over_http(place, where):
                found.append(await call(port, server, "echo", {"message": place.name}))
                found.append(await call(port, server, "get-sum", {"a": 1, "b": 2}))
        return found

    found = played(scene, port)
    assert [one.result for one in found] == [
        "Echo: first",
        "The sum of 1 and 2 is 3.",
        "Echo: second",
        "The sum of 1 and 2 is 3.",
    ], found


def test_a_server_that_is_away_for_a_while_was_not_called(tmp_path: Path) -> None:
    where = free_port()
    server = http(f"127.0.0.1:{where}")
    port = runner(server, gate=Gate.trust_hosts([f"127.0.0.1:{where}"]))

    async def scene() -> Any:
        with mcp_servers.everything_over_http(tmp_path, where):
            before = await call(port, server, "echo", {"message": "here"})
        return before, await call(port, server, "echo", {"message": "away"})

    before, after = played(scene, port)
    assert before.result == "Echo: here"
    assert isinstance(after, CallFailed)
    assert after.outcome is Outcome.REJECTED


def test_a_command_that_dies_between_calls_is_started_again(folder: Path) -> None:
    server = mcp_servers.filesystem(folder)
    port = runner(server)
    args = {"path": str(folder / "bridge.md")}

    async def scene() -> Any:
        before = await call(port, server, "read_text_file", args)
        (pid,) = [one for one in children_of(os.getpid()) if str(folder) in command_of(one)]
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        return before, await call(port, server, "read_text_file", args)

    before, after = played(scene, port)
    assert before.result == after.result == {"content": "It was built in 1931."}, after
