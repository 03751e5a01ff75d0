"""An MCP server changes its offer while it runs: tools that come, go and change their form; listings that lead nowhere, and too long ones."""

import json

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.tools.mcp.test_sessions import Forgetful, own, result, with_text
from tests.fabric.tools.mcp.worlds import call, http, played, runner, served, stdio

KINDS = ("resources", "resources/templates", "prompts")


@pytest.fixture(params=["command", "events of 2026", "events before 2026"])
def changing(request):
    """A real server whose tools may be changed, and a port to it."""
    if request.param == "command":
        yield stdio(), runner(stdio())
        return
    with served(*(("--old",) if request.param.endswith("before 2026") else ())) as where:
        yield http(where), runner(http(where), gate=Gate.trust_hosts([where]))


async def until(port, server, name, args, holds):
    """Calls a tool until what was said of a change has arrived."""
    found = await call(port, server, name, args)
    while not holds(found):
        found = await call(port, server, name, args)
    return found


def test_a_tool_that_went_away_is_an_error_for_the_model_and_one_that_came_is_called(changing):
    server, port = changing

    async def scene():
        before = await call(port, server, "echo", {"text": "hello"})
        await call(port, server, "change", {"away": "echo"})
        after = await until(
            port, server, "echo", {"text": "hello"}, lambda found: "no longer" in getattr(found, "error", "")
        )
        await call(port, server, "change")
        return before, after, await call(port, server, "later", {"a": 3})

    before, after, came = played(scene, port)
    assert before.result == "hello"
    assert after.error.startswith(
        "MCP server 'things' no longer offers the tool 'echo'; it offers: add, asks, asks_by_a_strange_form"
    )
    assert after.outcome is Outcome.REJECTED
    assert came.result == "3"


def test_a_tool_whose_form_changed_is_held_to_its_new_form(changing):
    server, port = changing

    async def scene():
        await call(port, server, "change")
        fits = await call(port, server, "later", {"a": 3})
        await call(port, server, "change", {"form": "text"})
        refused = await until(
            port, server, "later", {"a": 3}, lambda found: "other arguments" in getattr(found, "error", "")
        )
        return fits, refused, await call(port, server, "later", {"name": "x"})

    fits, refused, after = played(scene, port)
    assert fits.result == "3"
    assert refused.outcome is Outcome.REJECTED
    assert "MCP server 'things' takes other arguments than the fabric declares" in refused.error
    assert after.result == "x"


def listed(pages):
    """One call of a server that gives those pages by their cursor, and how often it was asked for one."""
    server = Forgetful(with_text(404, ""))

    def script(received):
        body = received.body or {}
        if body.get("method") != "tools/list":
            return server(received)
        return result(received, pages((body.get("params") or {}).get("cursor")))

    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act"), port)
        return found, sum((one.body or {}).get("method") == "tools/list" for one in endpoint.received)


def tools(*names):
    return [{"name": one, "inputSchema": {"type": "object"}} for one in names]


TURNS = {None: "b", "b": "c", "c": "b"}


@pytest.mark.parametrize(
    ("after", "asked"),
    [
        (lambda cursor: "same", 2),
        (lambda cursor: TURNS[cursor], 3),
        (lambda cursor: "", 1),
        (lambda cursor: None, 1),
    ],
    ids=["stays", "turns", "empty", "none"],
)
def test_a_listing_whose_cursor_leads_nowhere_ends_at_once(after, asked):
    found, times = listed(lambda cursor: {"tools": tools("act"), "nextCursor": after(cursor)})
    assert found.result == "done in s1"
    assert times == asked


def test_a_tool_on_the_last_of_many_pages_is_found():
    last = 40
    found, times = listed(
        lambda cursor: (
            {"tools": tools(f"t{cursor}")} | {"nextCursor": str(int(cursor or 0) + 1)}
            if int(cursor or 0) < last
            else {"tools": tools("act")}
        )
    )
    assert found.result == "done in s1"
    assert times == last + 1


@pytest.mark.parametrize(
    "pages",
    [
        lambda cursor: {"tools": tools(*(f"tool-{n}" for n in range(10_000)))},
        lambda cursor: {
            "tools": tools(*(f"{cursor}-{n}" for n in range(100))),
            "nextCursor": str(int(cursor or 0) + 1),
        },
        lambda cursor: {"tools": [], "nextCursor": str(int(cursor or 0) + 1)},
    ],
    ids=["one page", "pages", "empty pages"],
)
def test_too_many_tools_are_refused_in_one_sentence(pages):
    found, _ = listed(pages)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert found.message == (
        "MCP server 'things': it offers more than 2,000 tools, or more than 500 pages of them; have it offer fewer"
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "act"},
        {"name": "act", "inputSchema": None, "description": None, "annotations": None, "outputSchema": None},
        {"name": "act", "inputSchema": {}, "title": 7, "icons": [{}], "annotations": {"readOnlyHint": "yes"}},
        {"name": "act", "inputSchema": {"properties": {}}, "outputSchema": {"type": "array"}, "_meta": []},
    ],
)
def test_a_tool_of_which_some_fields_are_odd_is_offered_all_the_same(entry):
    found, _ = listed(lambda cursor: {"tools": [{"inputSchema": {}}, 7, entry], "nextCursor": 7})
    assert found.result == "done in s1"


def test_a_listing_that_breaks_off_is_a_failed_call_and_nothing_was_done():
    server = Forgetful(with_text(404, ""))

    def script(received):
        if (received.body or {}).get("method") == "tools/list":
            return Step(body=json.dumps({}).encode(), mode="drop")
        return server(received)

    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act"), port)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.REJECTED)


@pytest.mark.parametrize(
    ("refusal", "unlisted"),
    [
        (own(200, -32601, "no such method"), ()),
        (own(200, -32603, "the store is away"), tuple((one, "the store is away") for one in KINDS)),
    ],
    ids=["has no way to list", "fails"],
)
def test_what_a_server_says_that_it_has_and_does_not_list_is_told(refusal, unlisted):
    server = Forgetful(with_text(404, ""), resources={}, prompts={})

    def script(received):
        method = (received.body or {}).get("method", "")
        return refusal(received) if method.startswith(("resources/", "prompts/")) else server(received)

    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: port.servers.read_offer(at), port)
    assert [one.name for one in found.tools] == ["act"]
    assert (found.resources, found.prompts, found.unlisted) == ((), (), unlisted)


def test_resources_and_prompts_are_listed_to_their_last_page_whatever_is_odd_of_them():
    server = Forgetful(with_text(404, ""), resources={}, prompts={})
    pages = {
        "resources/list": {
            "resources": [{"uri": "a:1"}, {"name": "no address"}, {"uri": "a:2", "name": "two", "size": "x"}]
        },
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a:{n}", "name": None}]},
        "prompts/list": {"prompts": [{"name": "tidy", "arguments": [{"name": "room", "required": "yes"}, 7]}, {}]},
    }

    def script(received):
        body = received.body or {}
        page = pages.get(body.get("method", ""))
        if page is None:
            return server(received)
        more = {} if (body.get("params") or {}).get("cursor") else {"nextCursor": "2"}
        return result(received, {name: one if more else [] for name, one in page.items()} | more)

    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: port.servers.read_offer(at), port)
    assert [(one.uri, one.name, one.template) for one in found.resources] == [
        ("a:1", "a:1", False),
        ("a:2", "two", False),
        ("a:{n}", "a:{n}", True),
    ]
    assert [(one.name, one.arguments, one.required) for one in found.prompts] == [("tidy", ("room",), ())]
