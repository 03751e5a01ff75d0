"""Tools of MCP servers that are commands: the official SDK's client against a real server of its own, and against programs that keep to no protocol."""

import asyncio
import os
import tracemalloc
from pathlib import Path

import pytest

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.tools.mcp.failures import MESSAGE_BYTES_MAX
from fabric.tools.runner import ToolRunner
from tests.fabric.tools.mcp.worlds import (
    DONE,
    SAYING,
    alive,
    call,
    one,
    permits,
    played,
    program,
    runner,
    saying,
    stdio,
)

# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_structured_answer_is_the_result():
    assert one("add", {"a": 2, "b": 3}).result == {"result": 5}


def test_a_text_is_the_result():
    assert one("echo", {"text": "hello"}).result == "hello"


def test_an_error_of_the_tool_is_told_to_the_model_and_its_effect_is_unknown():
    found = one("fail")
    assert isinstance(found, ToolFinished)
    assert "the printer is on fire" in found.error
    assert found.outcome is Outcome.UNKNOWN


def test_a_call_carries_its_key():
    assert one("whoami").result.split()[1:] == ["key-1", f"00-{'a' * 32}-{'b' * 16}-01"]


@pytest.mark.parametrize(("uri", "held"), [("notes://today", "feed the cat"), ("notes://monday/3", "note 3 of monday")])
def test_a_resource_is_read_by_its_address(uri, held):
    assert one("resources/read", {"uri": uri}).result == {"uri": uri, "content": held}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"uri": "notes://a"}, "MCP server 'things' says: "),
        ({}, "to read a resource of MCP server 'things', give its address as `uri`, a text"),
        ({"uri": 7}, "to read a resource of MCP server 'things', give its address as `uri`, a text"),
    ],
)
def test_a_resource_that_cannot_be_read_is_one_sentence(args, said):
    assert one("resources/read", args).error.startswith(said)


def test_a_result_beyond_the_server_s_cap_is_told_and_was_done():
    found = one("large", {"megabytes": 1}, server=stdio(result_bytes=1_000))
    assert found.error == "the result of MCP server 'things' has 1,000,002 bytes; at most 1,000 are taken; ask for less"
    assert found.outcome is Outcome.ANSWERED


# -- what may be called ------------------------------------------------------------------------------------------------


def test_a_tool_that_is_not_there_any_more_is_told_with_those_that_are():
    found = one("add", {"a": 1}, server=stdio("--without", "add"))
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert found.message.startswith(
        "MCP server 'things' offers no tool 'add'; it offers: asks, asks_by_a_strange_form, asks_elsewhere"
    )


def test_arguments_that_the_server_takes_no_more_are_told_before_they_are_sent():
    found = one("add", {"a": "two"})
    assert (
        found.error
        == 'MCP server \'things\' takes other arguments than the fabric declares: a: "two" is not of type "integer"'
    )
    assert found.outcome is Outcome.REJECTED


def test_a_command_that_the_operator_did_not_allow_is_not_run(tmp_path):
    server = program(f"open({str(tmp_path / 'ran')!r}, 'w')")
    found = one("add", server=server, port=ToolRunner(permits=permits(stdio())))
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert "is not allowed; have the operator add it to FABRIC_MCP_COMMANDS" in found.message
    assert not (tmp_path / "ran").exists()


def test_a_server_has_the_variables_that_its_fabric_names_and_the_operator_allows_and_no_other():
    server = stdio(variables=("CRM_TOKEN",))
    port = runner(server, "CRM_TOKEN", CRM_TOKEN="x", FABRIC_SECRET_KEY="y")
    names = one("environment", server=server, port=port).result.split()
    assert "CRM_TOKEN" in names
    assert "PATH" in names
    assert "FABRIC_SECRET_KEY" not in names


@pytest.mark.parametrize(
    ("allowed", "set_here", "said"),
    [
        ((), {"CRM_TOKEN": "x"}, "it is given the variable CRM_TOKEN, which is not allowed"),
        (("CRM_TOKEN",), {}, "the variable CRM_TOKEN is not set in this process's environment"),
    ],
)
def test_a_variable_that_is_not_allowed_or_not_set_is_told(allowed, set_here, said):
    server = stdio(variables=("CRM_TOKEN",))
    found = one("environment", server=server, port=runner(server, *allowed, **set_here))
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert said in found.message


# -- one that does not begin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "cause", "said"),
    [
        (stdio(command="/no/such/program"), Cause.BAD_CONFIGURATION, "does not start: No such file or directory"),
        (
            program("import os; os._exit(3)"),
            Cause.NETWORK,
            "it was gone before it answered the first greeting: it ended with exit code 3",
        ),
        (
            program("import sys; print('Listening!', flush=True); sys.stdin.read()", connect_s=4),
            Cause.TIMEOUT,
            "within 4 seconds; 1 line of its output were no message, the last: 'Listening!'",
        ),
        (
            program("""import sys; print('{"jsonrpc": "1.0", "id": 1}', flush=True); sys.stdin.read()"""),
            Cause.NETWORK,
            'it sent a message that is no JSON-RPC 2.0: \'{"jsonrpc": "1.0"',
        ),
    ],
)
def test_a_server_that_does_not_begin_is_told_and_nothing_was_done(server, cause, said):
    found = one("add", {"a": 1}, server=server)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (cause, Outcome.REJECTED)
    assert said in found.message
    assert found.message.startswith("MCP server 'things': ")


def test_one_that_does_not_begin_is_not_started_again_at_once(tmp_path):
    count = tmp_path / "count"
    server = program(f"import os; open({str(count)!r}, 'a').write('x'); os._exit(1)")
    port = runner(server)

    async def scene():
        return [await call(port, server, "add") for _ in range(3)]

    first, *later = played(scene, port)
    assert count.read_text() == "x"
    assert 0 < first.retry_after_s <= 0.5
    assert all("is tried again in 0." in found.message and found.outcome is Outcome.REJECTED for found in later)


# -- one that goes wrong in mid-call -----------------------------------------------------------------------------------


def test_one_that_dies_in_mid_call_leaves_the_outcome_unknown_and_the_next_call_has_another():
    server = stdio()
    port = runner(server)

    async def scene():
        before = await call(port, server, "whoami")
        died = await call(port, server, "fail", {"how": "exit"})
        return before, died, await call(port, server, "whoami")

    before, died, after = played(scene, port)
    assert isinstance(died, CallFailed)
    assert (died.cause, died.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert died.message == "MCP server 'things' was gone before it answered: it ended with exit code 7"
    assert before.result.split()[0] != after.result.split()[0]


def test_one_that_dies_again_and_again_is_given_a_pause():
    server = stdio()
    port = runner(server)

    async def scene():
        return [await call(port, server, "fail", {"how": "exit"}) for _ in range(3)]

    *_, last = played(scene, port)
    assert last.outcome is Outcome.REJECTED
    assert "is tried again in 0." in last.message


def test_one_that_never_returns_is_left_at_the_deadline_and_its_process_with_it(tmp_path: Path):
    os.mkfifo(tmp_path / "never")
    server = stdio(variables=("MCP_NOTES",))
    port = runner(server, "MCP_NOTES", MCP_NOTES=str(tmp_path))

    async def scene():
        await call(port, server, "whoami")
        out = asyncio.create_task(call(port, server, "never", within_s=6))
        pid = int(await asyncio.to_thread((tmp_path / "never").read_text))
        stuck = await out
        return pid, stuck, await call(port, server, "whoami")

    pid, stuck, after = played(scene, port)
    assert (stuck.cause, stuck.outcome) == (Cause.TIMEOUT, Outcome.UNKNOWN)
    assert stuck.message.startswith("MCP server 'things' did not answer within ")
    assert int(after.result.split()[0]) != pid
    assert not alive(pid)


def test_the_timeout_of_the_server_holds_where_the_tool_names_none():
    found = one("act", server=saying(timeout_s=2))
    assert (found.cause, found.message) == (Cause.TIMEOUT, "MCP server 'things' did not answer within 2.0 seconds")


def test_fifty_megabytes_are_never_held_and_the_session_goes_on():
    server = stdio()
    port = runner(server)

    async def scene():
        return await call(port, server, "large", {"megabytes": 50}), await call(port, server, "echo", {"text": "on"})

    tracemalloc.start()
    try:
        much, after = played(scene, port)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (
        much.error
        == "MCP server 'things' says: its answer is larger than 4,000,000 bytes; the rest is not read; ask for less"
    )
    assert much.outcome is Outcome.ANSWERED
    assert after.result == "on"
    assert peak < 10 * MESSAGE_BYTES_MAX


def test_noise_on_standard_error_harms_nothing():
    assert one("noisy", {"lines": 5_000}).result == "done"


def test_noise_on_standard_output_harms_nothing():
    assert one("act", server=saying("hello there", "", '{"level": "info"}', DONE)).result == "done"


def test_noise_instead_of_an_answer_is_told_at_the_deadline():
    found = one("act", server=saying('{"level": "error"}'), within_s=5)
    assert (found.cause, found.outcome) == (Cause.TIMEOUT, Outcome.UNKNOWN)
    assert found.message.endswith('; 1 line of its output were no message, the last: \'{"level": "error"}\'')


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"jsonrpc": "2.0", "id": {}, "result"', "it sent a message that is no JSON-RPC 2.0: "),
        ('{"jsonrpc": "2.0", "id": ID, "result": 7}', "it sent a message that is no JSON-RPC 2.0: "),
        ('{"jsonrpc": "2.0", "id": ID, "result": {"content": 7}}', "answered what its protocol"),
    ],
)
def test_an_answer_that_breaks_the_protocol_is_one_sentence(line, said):
    found = one("act", server=saying(line))
    assert found.outcome in (Outcome.UNKNOWN, Outcome.ANSWERED)
    assert said in (found.message if isinstance(found, CallFailed) else found.error)


@pytest.mark.parametrize(
    ("part", "result"),
    [
        (
            '{"type": "image", "mimeType": "image/png", "data": "AAAA"}',
            {"type": "image/png", "bytes": 3, "left_out": "it is no text"},
        ),
        (
            '{"type": "resource", "resource": {"uri": "file:///a.json", "mimeType": "application/json", "text": "[1]"}}',
            {"uri": "file:///a.json", "content": [1]},
        ),
        (
            '{"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "[1]"}}',
            {"uri": "file:///a.txt", "content": "[1]"},
        ),
        ('{"type": "resource_link", "uri": "file:///b", "name": "b"}', {"uri": "file:///b", "name": "b"}),
        ('{"type": "text", "text": "a"}, {"type": "text", "text": "b"}', ["a", "b"]),
        ("", None),
    ],
)
def test_each_kind_of_content_is_a_result_that_a_model_can_read(part, result):
    line = f'{{"jsonrpc": "2.0", "id": ID, "result": {{"content": [{part}]}}}}'
    assert one("act", server=saying(line)).result == result


@pytest.mark.parametrize("late", [False, True])
def test_the_id_of_an_answer_that_is_too_long_may_stand_at_either_end(late):
    much = "'x' * 5_000_000"
    before, after = ("", ", 'id': asked['id']") if late else ("'id': asked['id'], ", "")
    answer = f"{{'jsonrpc': '2.0', {before}'result': {{'content': [{{'type': 'text', 'text': {much}}}]}}{after}}}"
    server = program(
        SAYING.replace(
            "        for given in sys.argv[1:]:",
            f"        print(json.dumps({answer}), flush=True)\n        for given in ():",
        )
    )
    found = one("act", server=server)
    assert (found.outcome, found.code) == (Outcome.ANSWERED, "-31999")


def test_a_message_that_is_too_long_and_answers_nothing_ends_the_session():
    server = program(
        SAYING.replace(
            "        for given in sys.argv[1:]:", "        print('x' * 5_000_000, flush=True)\n        for given in ():"
        )
    )
    found = one("act", server=server)
    assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert found.message.endswith("it sent a message of more than 4,000,000 bytes that answers nothing")


# -- what servers may do and seldom do ---------------------------------------------------------------------------------


def test_a_server_that_asks_back_is_given_nothing():
    found = one("asks")
    assert isinstance(found, ToolFinished)
    assert found.outcome is Outcome.UNKNOWN
    assert found.error


def listing(pages: str, answer: str = DONE):
    """A server of before 2026 whose n-th listing is the n-th of some pages."""
    listed = "said['result'] = pages.pop(0)"
    text = SAYING.replace("import json, sys", f"import json, sys\npages = {pages}")
    old = "said['result'] = {'tools': [{'name': 'act', 'inputSchema': {'type': 'object'}}]}"
    assert old in text
    return stdio(args=("-c", text.replace(old, listed), answer))


def test_a_listing_of_several_pages_is_read_to_its_end():
    act = "{'name': 'act', 'inputSchema': {'type': 'object'}}"
    pages = f"[{{'tools': [], 'nextCursor': 'b'}}, {{'tools': [{act}]}}]"
    assert one("act", server=listing(pages)).result == "done"


def test_a_tool_that_came_later_is_found():
    act = "{'name': 'act', 'inputSchema': {'type': 'object'}}"
    assert one("act", server=listing(f"[{{'tools': []}}, {{'tools': [{act}]}}]")).result == "done"


@pytest.mark.parametrize("answer", [DONE, DONE.replace('"content"', '"structuredContent": {"n": "x"}, "content"')])
def test_an_answer_that_is_not_of_the_form_that_its_server_announces_was_done_all_the_same(answer):
    shape = "{'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}"
    act = f"{{'name': 'act', 'inputSchema': {{'type': 'object'}}, 'outputSchema': {shape}}}"
    found = one("act", server=listing(f"[{{'tools': [{act}]}}]", answer))
    assert found.error.startswith("MCP server 'things' answered what its protocol or its own schema does not allow: ")
    assert found.outcome is Outcome.ANSWERED


def test_a_schema_of_a_server_that_is_none_is_the_server_s_to_judge():
    act = "{'name': 'act', 'inputSchema': {'type': 'object', 'properties': {'a': {'type': 'nonsense'}}}}"
    assert one("act", {"a": 1}, server=listing(f"[{{'tools': [{act}]}}]")).result == "done"
