"""MCP servers that keep to no rule: what has one meaning is read, an answer goes to its own call alone, and everything else is one sentence."""

import asyncio
import json
import time

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from simulator.endpoint import ScriptedEndpoint, Step, html
from tests.fabric.tools.mcp.test_sessions import Forgetful, calls, except_calls, with_text
from tests.fabric.tools.mcp.worlds import DONE, SAYING, call, http, one, played, program, runner, saying

ESC = "\x1b[32m"


def sentence_of(found):
    return found.message if isinstance(found, CallFailed) else found.error


# -- commands ----------------------------------------------------------------------------------------------------------

READ = {
    "colours": (f"{ESC}{DONE}\x1b[0m",),
    "a title and a cleared line": (f"\x1b]0;server\x07\x1b[2K{DONE}",),
    "a byte order mark": ("\ufeff" + DONE,),
    "carriage returns": (DONE + "\r",),
    "a banner, blank lines and a log line": ("Listening on stdio...", "", "  ", '{"level": "info", "id": ID}', DONE),
    "a banner without an end of line": (f"Loading... {DONE}",),
    "an id that is a text": (DONE.replace("ID", '"ID"'),),
    "an id with a point": (DONE.replace("ID", "ID.0"),),
    "no jsonrpc": (DONE.replace('"jsonrpc": "2.0", ', ""),),
    "an error that is null": (DONE.replace('"result"', '"error": null, "result"'),),
    "a batch": (f'[{{"jsonrpc": "2.0", "method": "notifications/message", "params": {{}}}}, {DONE}]',),
    "an answer to something else before it": (DONE.replace("ID", "99"), DONE),
    "an answer that comes twice": (DONE, DONE.replace("done", "again")),
    "an error without an id before it": ('{"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "x"}}', DONE),
    "a notification of tomorrow": ('{"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}}', DONE),
    "a known notification that is odd": ('{"jsonrpc": "2.0", "method": "notifications/progress", "params": 7}', DONE),
    "a request of tomorrow": ('{"jsonrpc": "2.0", "id": "s1", "method": "x/y"}', DONE),
    "a request for roots": ('{"jsonrpc": "2.0", "id": "s1", "method": "roots/list"}', DONE),
    "a request to sample": ('{"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {}}', DONE),
    "a result that is a text": ('{"jsonrpc": "2.0", "id": ID, "result": "done"}',),
    "a result that is its content": ('{"jsonrpc": "2.0", "id": ID, "result": [{"type": "text", "text": "done"}]}',),
    "a result in a field of before 2025": ('{"jsonrpc": "2.0", "id": ID, "result": {"toolResult": "done"}}',),
    "content without its type": (DONE.replace('"type": "text", ', ""),),
    "half a pair in a field beside it": (DONE.replace('"content"', r'"note": "\ud83d", "content"'),),
    "a ping": ('{"jsonrpc": "2.0", "id": "s1", "method": "ping"}', DONE),
}


@pytest.mark.parametrize("lines", READ.values(), ids=READ)
def test_an_answer_of_a_command_is_read_whatever_stands_around_it(lines):
    found = one("act", server=saying(*lines), within_s=20)
    assert getattr(found, "result", sentence_of(found)) == "done"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (DONE.replace("ID", "99"), "; it answered 99, which is no request that is out"),
        ('{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}', '"message": "what?"'),
        (f"DEBUG got {DONE}".replace("ID", "99"), "no message, the last: 'DEBUG got"),
    ],
)
def test_an_answer_to_another_request_is_none_and_said_at_the_deadline(line, said):
    found = one("act", server=saying(line), within_s=4)
    assert (found.cause, found.outcome) == (Cause.TIMEOUT, Outcome.UNKNOWN)
    assert said in found.message


def test_an_answer_goes_to_its_own_call_alone():
    """Two calls are out, and their answers come in the other order, each once more for the other one with a strange id."""
    text = SAYING.replace(
        "        for given in sys.argv[1:]:",
        """        import os
        waiting = globals().setdefault('waiting', [])
        waiting.append(asked)
        for each in (reversed(waiting) if len(waiting) == 2 else ()):
            answer = {'content': [{'type': 'text', 'text': each['params']['arguments']['n']}]}
            print(json.dumps({'jsonrpc': '2.0', 'id': str(each['id'] + 1000), 'result': {'content': []}}), flush=True)
            print(json.dumps({'jsonrpc': '2.0', 'id': str(each['id']), 'result': answer}), flush=True)
        for given in ():""",
    )
    server = program(text)
    port = runner(server)

    async def scene():
        return await asyncio.gather(*(call(port, server, "act", {"n": n}) for n in ("one", "two")))

    assert [found.result for found in played(scene, port)] == ["one", "two"]


def test_one_call_that_is_answered_nonsense_ends_no_other():
    text = SAYING.replace(
        "        for given in sys.argv[1:]:",
        """        bad = asked['params']['arguments'].get('bad')
        print(json.dumps(said | {'result': 7 if bad else {'content': []}}), flush=True)
        for given in ():""",
    )
    server = program(text)
    port = runner(server)

    async def scene():
        bad = await call(port, server, "act", {"bad": True})
        pid = next(iter(port.servers._kept.values())).session.process_id
        after = await call(port, server, "act")
        return bad, after, pid == next(iter(port.servers._kept.values())).session.process_id

    bad, after, same = played(scene, port)
    assert (bad.cause, bad.outcome) == (Cause.MALFORMED_ANSWER, Outcome.UNKNOWN)
    assert after.error == ""
    assert same


LAST = {
    "one line": (
        "print('boom: no key', file=sys.stderr)",
        "it ended with exit code 3; on standard error it last said: 'boom: no key'",
    ),
    "half a megabyte": (
        "sys.stderr.write('x' * 500_000 + '\\nthe key is missing')",
        "it last said: 'the key is missing'",
    ),
    "many lines": ("[print('noise', n, file=sys.stderr) for n in range(9_000)]", "it last said: 'noise 8999'"),
    "a colour": (f"print('{ESC}red', file=sys.stderr)", "it last said: 'red'"),
    "a traceback": (
        "print('Traceback:\\n  x\\nValueError: no key\\n\\n', file=sys.stderr)",
        "it last said: 'ValueError: no key'",
    ),
    "what Node adds": (
        "print('Error: no key\\n\\nNode.js v20.20.2', file=sys.stderr)",
        "it last said: 'Error: no key'",
    ),
    "no word": ("pass", "it ended with exit code 3"),
}


@pytest.mark.parametrize(("says", "said"), LAST.values(), ids=LAST)
def test_a_command_that_ends_at_once_is_told_with_its_last_words(says, said):
    found = one("act", server=program(f"import os, sys; {says}; sys.stderr.flush(); os._exit(3)"))
    assert (found.cause, found.outcome) == (Cause.NETWORK, Outcome.REJECTED)
    assert found.message.endswith(said)


def test_a_command_that_dies_in_mid_call_is_told_with_its_last_words():
    text = SAYING.replace(
        "        for given in sys.argv[1:]:", "        sys.exit('out of memory')\n        for given in ():"
    )
    found = one("act", server=program(text))
    assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert found.message.endswith("it ended with exit code 1; on standard error it last said: 'out of memory'")


GREETINGS = {
    "of 2024": "{'protocolVersion': '2024-11-05', 'capabilities': {}, 'serverInfo': {'name': 'x', 'version': '1'}}",
    "without capabilities": "{'protocolVersion': '2025-03-26', 'serverInfo': {'name': 'x'}}",
    "with null": "{'protocolVersion': '2025-06-18', 'capabilities': None, 'serverInfo': None, 'instructions': None}",
    "with odd capabilities": "{'protocolVersion': '2025-11-25', 'capabilities': {'tools': True, 'x': {}}, 'serverInfo': 'x'}",
}


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
def test_an_odd_greeting_is_taken(greeting):
    text = SAYING.replace(
        "said['result'] = {'protocolVersion'", f"said['result'] = {greeting}\n        _ = {{'protocolVersion'"
    )
    server = program(text)
    server = server.model_copy(update={"args": (*server.args, DONE)})
    assert one("act", server=server).result == "done"


@pytest.mark.parametrize("version", ["2020-01-01", "1.0", ""])
def test_a_unknown_protocol_is_one_sentence(version):
    found = one("act", server=program(SAYING.replace("2025-06-18", version)))
    assert (found.cause, found.outcome) == (Cause.MALFORMED_ANSWER, Outcome.REJECTED)
    assert f"Unsupported protocol version from the server: {version}" in found.message


# -- addresses ---------------------------------------------------------------------------------------------------------


def asked(refusal, **changed):
    """One call over HTTP whose answer is that one, and how often it was made."""
    with ScriptedEndpoint(except_calls(refusal, Forgetful(with_text(404, "")))) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act", **changed), port)
        return found, len(calls(endpoint))


def answer(received, text="done", **changed):
    return {
        "jsonrpc": "2.0",
        "id": received.body["id"],
        "result": {"content": [{"type": "text", "text": text}]},
    } | changed


def json_of(make, kind="application/json", before=b""):
    return lambda received: Step(body=before + json.dumps(make(received)).encode(), content_type=kind)


def events_of(*make, kind="text/event-stream", end="\n\n"):
    def step(received):
        events = [f"data: {json.dumps(one(received))}{end}" for one in make]
        return Step(body="".join(events).encode(), content_type=kind)

    return step


def other(received):
    return answer(received, "not yours", id=received.body["id"] + 7)


def notification(received):
    return {"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": 1}}


def in_chunks(received):
    """The answer behind ten thousand small events, cut where it happens to be."""
    much = "".join(f"event: message\ndata: {json.dumps(notification(received))}\n\n" for _ in range(5_000))
    whole = f": hello\n\n{much}data: {json.dumps(answer(received))}\n\n".encode()
    size = len(whole) // 10_000
    pieces = tuple(whole[at : at + size] for at in range(0, len(whole), size))
    return Step(content_type="text/event-stream", pieces=pieces)


HTTP_READ = {
    "JSON": json_of(answer),
    "JSON with a byte order mark": json_of(answer, before=b"\xef\xbb\xbf"),
    "JSON announced as text": json_of(answer, kind="text/plain"),
    "JSON with a charset": json_of(answer, kind="Application/JSON; charset=UTF-8"),
    "a batch": json_of(lambda received: [notification(received), other(received), answer(received)]),
    "an id that is a text": json_of(lambda received: answer(received, id=str(received.body["id"]))),
    "no jsonrpc": json_of(lambda received: {k: v for k, v in answer(received).items() if k != "jsonrpc"}),
    "events": events_of(answer),
    "events with carriage returns": events_of(answer, end="\r\n\r\n"),
    "events before and after": events_of(notification, answer, other),
    "another call's answer first": events_of(other, answer),
    "a known notification that is odd": events_of(lambda received: notification(received) | {"params": 7}, answer),
    "two answers": events_of(answer, lambda received: answer(received, "again")),
    "a batch as an event": events_of(lambda received: [notification(received), answer(received)]),
    "an event that is none": lambda received: Step(
        body=f"data: {{\n\ndata: {json.dumps(answer(received))}\n\n".encode(), content_type="text/event-stream"
    ),
    "ten thousand chunks": in_chunks,
    "an event of another name": lambda received: Step(
        body=f"event: response\ndata: {json.dumps(answer(received))}\n\n".encode(), content_type="text/event-stream"
    ),
    "a last event without a blank line": events_of(answer, end="\n"),
    "events announced as JSON": events_of(notification, answer, kind="application/json"),
    "JSON announced as events": json_of(answer, kind="text/event-stream"),
}


@pytest.mark.parametrize("step", HTTP_READ.values(), ids=HTTP_READ)
def test_an_answer_over_http_is_read_whatever_stands_around_it(step):
    found, times = asked(step, within_s=30)
    assert getattr(found, "result", sentence_of(found)) == "done"
    assert times == 1


HTTP_ODD = {
    "another call's answer": (json_of(other), Cause.MALFORMED_ANSWER, "answered the request "),
    "another call's answer as an event": (
        events_of(other),
        Cause.MALFORMED_ANSWER,
        "which is not the one that was sent",
    ),
    "a question in place of an answer": (
        json_of(lambda received: {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        Cause.MALFORMED_ANSWER,
        "answered what is no answer",
    ),
    "a page to sign in": (lambda received: html(), Cause.MALFORMED_ANSWER, "answered with a web page, not with MCP"),
    "a page announced as JSON": (
        lambda received: Step(body=html().body, content_type="application/json"),
        Cause.MALFORMED_ANSWER,
        "answered with a web page, not with MCP",
    ),
    "nothing": (lambda received: Step(), Cause.MALFORMED_ANSWER, "answered without a message"),
    "no content": (lambda received: Step(status=204), Cause.MALFORMED_ANSWER, "answered without a message"),
    "two documents": (
        lambda received: Step(body=2 * json.dumps(answer(received)).encode()),
        Cause.MALFORMED_ANSWER,
        "answered what cannot be read as a message of MCP",
    ),
    "bytes": (
        lambda received: Step(body=b"\xff\xfe\x00", content_type="image/png"),
        Cause.MALFORMED_ANSWER,
        "(image/png)",
    ),
    "events that end early": (
        lambda received: Step(body=b'data: {"jsonrpc": "2.0", "id"', content_type="text/event-stream"),
        Cause.DROPPED_STREAM,
        "SSE stream ended without a response",
    ),
    "an event that cannot be read": (
        lambda received: Step(body=b"data: {\n\n", content_type="text/event-stream"),
        Cause.MALFORMED_ANSWER,
        "sent an event that cannot be read: '{'",
    ),
    "a JSON body that ends early": (
        lambda received: Step(body=json.dumps(answer(received)).encode(), mode="drop"),
        Cause.DROPPED_STREAM,
        "broke off after",
    ),
    "a Retry-After of another age": (
        lambda received: Step(status=429, headers={"Retry-After": "Fri, 31 Dec 99999999999999 23:59:59 GMT"}),
        None,
        "",
    ),
}


@pytest.mark.parametrize(("step", "cause", "said"), HTTP_ODD.values(), ids=HTTP_ODD)
def test_what_is_no_answer_over_http_is_one_sentence_and_is_not_asked_for_again(step, cause, said):
    found, times = asked(step)
    assert isinstance(found, CallFailed)
    assert cause is None or (found.cause, found.outcome) == (cause, Outcome.UNKNOWN)
    assert said in found.message
    assert times == 1


@pytest.mark.parametrize("status", [401, 403, 405, 406, 415])
@pytest.mark.parametrize("page", [True, False], ids=["page", "plain"])
def test_a_refusal_over_http_says_what_it_is(status, page):
    found, times = asked(lambda received: html(status) if page else Step(status=status, body=b"not so"))
    where = " with a web page" if page else "; it says: not so"
    assert found.error.endswith(f"/mcp answered HTTP {status}{where}")
    assert (found.outcome, times) == (Outcome.REJECTED, 1)


@pytest.mark.parametrize(
    ("step", "cause", "said"),
    [
        (html(), Cause.MALFORMED_ANSWER, "it may be a page to sign in, or the address of something else"),
        (html(401), Cause.AUTH, "it answered HTTP 401 to the first greeting; give it a key by headers_from"),
        (Step(status=403), Cause.AUTH, "it answered HTTP 403 to the first greeting; give it a key by headers_from"),
        (Step(status=404), Cause.BAD_CONFIGURATION, "HTTP 404 to the first greeting; look at the path of its address"),
        (
            Step(status=405),
            Cause.BAD_CONFIGURATION,
            "the older transport of two addresses, HTTP with SSE, is not spoken",
        ),
        (Step(status=406), Cause.BAD_CONFIGURATION, "it answered HTTP 406 to the first greeting"),
        (Step(status=415), Cause.BAD_CONFIGURATION, "it answered HTTP 415 to the first greeting"),
        (Step(status=503), Cause.SERVER_ERROR, "answered HTTP 503"),
        (Step(mode="hang_up"), Cause.DROPPED_STREAM, "closed the connection without an answer"),
        (Step(body=b"{}"), Cause.MALFORMED_ANSWER, "answered what is no answer: '{}'"),
    ],
)
def test_an_address_that_is_no_mcp_server_says_what_to_look_at(step, cause, said):
    with ScriptedEndpoint([step]) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act"), port)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (cause, Outcome.REJECTED)
    assert said in found.message


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_trickle_ends_at_the_deadline_and_holds_no_connection(kind):
    begun = time.monotonic()
    found, times = asked(lambda received: Step(body=b" ", content_type=kind, mode="trickle"), within_s=3)
    assert (found.cause, found.outcome, times) == (Cause.TIMEOUT, Outcome.UNKNOWN, 1)
    assert time.monotonic() - begun < 10


def test_a_server_that_ends_what_it_says_by_itself_at_once_is_not_asked_for_it_all_the_time():
    server = Forgetful(with_text(404, ""))

    def script(received):
        if received.method == "GET":
            return Step(body=b"retry: 0\nid: 1\ndata: \n\n", content_type="text/event-stream")
        if (received.body or {}).get("method") == "tools/call" and received.body["params"]["arguments"].get("slow"):
            return Step(mode="hang")
        return server(received)

    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        played(lambda: call(port, at, "act", {"slow": True}, within_s=4), port)
    assert 1 <= sum(one.method == "GET" for one in endpoint.received) <= 8


def test_a_server_of_before_2026_is_greeted_and_answered_by_the_same_messages_as_ever():
    server = Forgetful(with_text(404, ""))
    with ScriptedEndpoint(server) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        played(lambda: call(port, at, "act"), port)
    methods = [(one.body or {}).get("method") for one in endpoint.received if one.method == "POST"]
    assert methods == ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"]
