"""Known secrets are taken out of whatever comes in, in every form in which programs hand texts back, and in bounded time."""

from __future__ import annotations

import asyncio
import base64
import html
import io
import json
import logging
import re
import time
from urllib.parse import quote, quote_plus

import pytest

from console.site import log_output as known
from console.site.log_output import JsonLines
from fabric.core.events.inputs import CallFailed, CallStreamed, ModelReplied, ToolCall, ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.providers.router import ModelRouter
from fabric.secrets.known_secrets import (
    CHARS_MIN,
    KNOWN,
    MASK,
    KnownSecrets,
    list_passwords,
    list_variable_secrets,
    list_webhook_secrets,
)
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import ToolRunner
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.asking import request as model_request
from tests.fabric.providers.wires import OPENAI
from tests.fabric.tools.asking import run, samples
from tests.fabric.tools.mcp.worlds import SAYING, one, runner, stdio

SECRET = 'canary/0123+456=?"\\ü89'
TOKEN = "canary-token-0123456789abcdef"
FORMS = {
    "as it is": SECRET,
    "percent-encoded": quote(SECRET, safe=""),
    "percent-encoded in small letters": re.sub("%..", lambda found: found[0].lower(), quote(SECRET, safe="")),
    "percent-encoded but for slashes": quote(SECRET),
    "as a form writes it": quote_plus(SECRET),
    "in JSON": json.dumps(SECRET)[1:-1],
    "in JSON with its letters": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "in HTML": html.escape(SECRET),
    **{
        f"in base64 after {before} bytes, {after} behind": base64.b64encode(
            b"u" * before + SECRET.encode() + b"t" * after
        ).decode()
        for before in range(4)
        for after in range(3)
    },
    "in base64url": base64.urlsafe_b64encode(SECRET.encode()).decode(),
}


@pytest.fixture
def secrets():
    made = KnownSecrets()
    made.learn("test", [SECRET, TOKEN])
    return made


@pytest.fixture
def taught():
    KNOWN.learn("test", [SECRET, TOKEN])
    yield KNOWN
    KNOWN.learn("test", [])


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_masked(secrets, form):
    masked = secrets.mask_text(f"it said {FORMS[form]!s} and went")
    assert MASK in masked
    # At the ends of base64 a character may be left that depends on its neighbour.
    assert all(FORMS[form][at : at + CHARS_MIN] not in masked for at in range(len(FORMS[form]) - CHARS_MIN))
    assert masked.startswith("it said ")
    assert masked.endswith(" and went")


def test_what_holds_none_is_the_same_object(secrets):
    value = {"a": ["text that is long enough", 1, None, 1.5, True], "b": {"c": TOKEN[:-1]}}
    assert secrets.mask_value(value) is value
    replied = ModelReplied(
        command_id="c1", attempt=1, text="an answer", calls=(ToolCall(call_id="t", tool="add", args={"a": 1}),)
    )
    assert secrets.mask_value(replied) is replied


def test_every_text_of_a_value_is_looked_at(secrets):
    given = CallFailed(command_id="c1", attempt=1, cause=Cause.AUTH, message=f"no {TOKEN}", raw=f"{TOKEN} {SECRET}")
    hidden = secrets.mask_value(given)
    assert (hidden.message, hidden.raw, hidden.cause) == (f"no {MASK}", f"{MASK} {MASK}", Cause.AUTH)
    streamed = CallStreamed(
        command_id="c1", attempt=1, calls=(ToolCall(call_id="t", tool="add", args={TOKEN: [{"x": SECRET}]}),)
    )
    assert secrets.mask_value(streamed).calls[0].args == {MASK: [{"x": MASK}]}


def test_short_values_and_what_was_unlearnt_are_passed_over(secrets):
    secrets.learn("test", ["eleven-char", ""])
    assert secrets.mask_text(f"eleven-char {TOKEN}") == f"eleven-char {TOKEN}"
    secrets.add("test", [TOKEN])
    assert secrets.mask_text(TOKEN) == MASK


def test_half_characters_are_left_as_they_are(secrets):
    assert secrets.mask_text(f"\ud800 {TOKEN} \udfff") == f"\ud800 {MASK} \udfff"


@pytest.mark.parametrize(
    "text",
    ["x" * 5_000_000, "canary-token-0123456789" * 200_000, base64.b64encode(bytes(range(256)) * 15_000).decode()],
)
def test_hundreds_of_values_over_megabytes_take_bounded_time(text):
    known_here = KnownSecrets()
    known_here.learn("test", [f"canary-token-0123456789-{n:04}" for n in range(500)])
    began = time.thread_time()
    assert known_here.mask_text(text) is text
    assert time.thread_time() - began < 3
    began = time.thread_time()
    assert TOKEN[:-6] not in known_here.mask_text(f"canary-token-0123456789-{7:04} " * 20_000).replace(MASK, "")
    assert time.thread_time() - began < 10


def test_what_is_secret_of_an_address_and_of_a_variable():
    assert list_variable_secrets(f"Bearer {TOKEN}") == [f"Bearer {TOKEN}", "Bearer", TOKEN]
    assert set(
        list_webhook_secrets("https://hooks.example.org/notifications/T0/xoxb-of-much-more-letters?t=abcdefghijkl&x=1")
    ) == {
        *(
            "T0",
            "xoxb-of-much-more-letters",
            "abcdefghijkl",
            "1",
        ),  # Too short ones are passed over; words mean something.
    }
    assert set(list_passwords("postgresql://me:p%2Fss-word-1234@db.example.org/flow")) == {
        "p%2Fss-word-1234",
        "p/ss-word-1234",
    }
    assert set(list_passwords("postgresql://[::1/")) == {""}


# -- where bytes come in ---------------------------------------------------------------------------------------------


ECHOES = ((200, f"Bearer {TOKEN}"), (400, f"Bearer {TOKEN}"), (200, TOKEN))


def test_a_tool_that_echoes_its_header():
    steps = [Step(status=status, body=json.dumps({"you sent": said}).encode()) for status, said in ECHOES]
    with ScriptedEndpoint(steps) as endpoint:
        for _ in steps:
            target = f"http://{endpoint.authority}/act"
            how = {"target": target, "method": "GET", "headers_from": {"Authorization": "CRM"}}
            spec = ToolSpec(name="act", kind="http", description="D", parameters={"type": "object"}, **how)
            allowed = Permits(
                variables=frozenset([f"CRM@{endpoint.authority}"]), environment={"CRM": f"Bearer {TOKEN}"}
            )
            found = run(spec, {}, ToolRunner(gate=Gate.trust_hosts([endpoint.authority]), permits=allowed))
            assert TOKEN not in str(found)
            assert MASK in str(found)


def test_a_function_that_gives_its_variable():
    allowed = samples(environment={"SAMPLE_KEY": TOKEN})
    spec = ToolSpec(name="seen", kind="callable", description="D", parameters={"type": "object"}, target="seen")
    tools = ToolRunner(permits=allowed)
    try:
        found = run(spec, {}, tools)
    finally:
        tools.close()
    assert isinstance(found, ToolFinished)
    assert found.result["SAMPLE_KEY"] == MASK


def test_an_mcp_server_that_says_its_variable_in_a_result_an_error_and_at_its_end(taught):
    text = SAYING.replace("import json, sys", "import json, os, sys").replace(
        "given.replace(", "given.replace('TOKEN', os.environ['CRM_TOKEN']).replace("
    )
    said = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "it is TOKEN"}]}}'
    failed = '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32010, "message": "no TOKEN"}}'
    ended = "import os, sys; sys.exit(os.environ['CRM_TOKEN'])"
    for args, masks in ((("-c", text, said), True), (("-c", text, failed), True), (("-c", ended), False)):
        server = stdio(args=args, variables=("CRM_TOKEN",))
        found = one("act", server=server, port=runner(server, "CRM_TOKEN", CRM_TOKEN=TOKEN))
        assert TOKEN not in str(found)
        assert MASK in str(found) or not masks


@pytest.mark.parametrize("secret", [TOKEN, base64.b64encode(TOKEN.encode()).decode(), quote(TOKEN)])
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_model_that_says_another_secret_than_its_own_key(taught, secret, status):
    step = OPENAI.answer(f"it is {secret}") if status == 200 else OPENAI.refusal(status, f"no {secret}")
    with ScriptedEndpoint([step]) as own:

        async def go():
            port = OPENAI.port(own)
            try:
                return await ModelRouter({"openai": port}).ask(model_request(model=OPENAI.spec()))
            finally:
                await port.aclose()

        found = asyncio.run(go())
    assert secret not in str(found)
    assert MASK in str(found)


@pytest.mark.parametrize("formatter", [logging.Formatter(), JsonLines()], ids=["text", "json"])
@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_no_line_of_the_log_has_it(taught, level, formatter):
    known.quiet_log()
    heard = io.StringIO()
    log, handler = logging.getLogger("tests.known"), logging.StreamHandler(heard)
    handler.setFormatter(formatter)
    log.addHandler(handler)
    before = log.level
    log.setLevel(logging.DEBUG)
    try:
        log.log(level, "to %s and %r", f"https://hooks.example.org/?t={TOKEN}", {"k": TOKEN})
        try:
            raise ValueError(f"bad {TOKEN}")
        except ValueError:
            log.log(level, "it failed", exc_info=True)
        log.log(level, "plain %d", 5)
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
    said = heard.getvalue()
    assert TOKEN not in said
    assert said.count(MASK) >= 3
    assert "Traceback" in said
    assert "plain 5" in said
