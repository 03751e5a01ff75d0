"""A model gets the texts and structures of an answer, each once, and never a picture's bytes as text."""

import base64
import json
import random

import pytest

from fabric.core.values.saga import Outcome
from fabric.tools.answers.binary import BARE_CHARS, BEGINS, replace_bytes
from tests.fabric.tools.mcp.worlds import one, saying

PNG = b"\x89PNG\r\n\x1a\n" + bytes(1_000)
PICTURE = base64.b64encode(PNG).decode()
NOISE = base64.b64encode(random.Random(7).randbytes(BARE_CHARS)).decode()
TOKEN = base64.urlsafe_b64encode(random.Random(8).randbytes(600)).decode()
LEFT = f"[image/png, {len(PNG):,} bytes, left out: it is no text]"
LEFT_PART = {"type": "image/png", "bytes": len(PNG), "left_out": "it is no text"}


def answered(**result):
    """Return what one call is given of that result."""
    line = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": result}).replace('"ID"', "ID")
    return one("act", server=saying(line))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"data": PICTURE, "mimeType": "image/png"}, {"data": LEFT, "mimeType": "image/png"}),
        (
            {"blob": "AAAA", "mime_type": "audio/wav"},
            {"blob": "[audio/wav, 3 bytes, left out: it is no text]", "mime_type": "audio/wav"},
        ),
        (
            {"Content": "AAAA", "contentType": "image/x"},
            {"Content": "[image/x, 3 bytes, left out: it is no text]", "contentType": "image/x"},
        ),
        ({"shot": PICTURE}, {"shot": LEFT}),
        ([[PICTURE]], [[LEFT]]),
        (f"look: ![shot](data:image/png;base64,{PICTURE}) nice", f"look: ![shot]({LEFT}) nice"),
        ("data:;base64,AAAA", "[application/octet-stream, 3 bytes, left out: it is no text]"),
        (json.dumps({"a": PICTURE, "b": 1}), json.dumps({"a": LEFT, "b": 1})),
        (base64.encodebytes(PNG).decode().strip(), LEFT),
        (NOISE, f"[application/octet-stream, {BARE_CHARS:,} bytes, left out: it is no text]"),
    ],
)
def test_bytes_in_a_structure_or_a_text_become_their_type_and_size(given, shown):
    assert replace_bytes(given) == shown


@pytest.mark.parametrize("begins", [begins for begins, _ in BEGINS], ids=[kind for _, kind in BEGINS])
def test_each_kind_of_file_is_known_by_how_it_begins(begins):
    kind = dict(BEGINS)[begins]
    given = base64.b64encode(begins + bytes(range(256)) * 16).decode()
    assert replace_bytes(given).startswith(f"[{kind}, ")


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        "a" * 10_000,
        "0123456789abcdef" * 1_000,
        "ACGT" * 5_000,
        "word " * 5_000,
        base64.b64encode(b"a text of many words " * 500).decode(),
        "https://example.org/" + "path/" * 500,
        "iVBORw0KGgo",
        "BM",
        "",
    ],
    ids=["token", "one letter", "digits", "genome", "words", "text", "address", "short", "shorter", "nothing"],
)
def test_words_tokens_and_addresses_stay_whole(text):
    assert replace_bytes(text) == text
    assert replace_bytes({"next": text, "mimeType": "text/plain"}) == {"next": text, "mimeType": "text/plain"}


PARTS = {
    "picture": ({"type": "image", "mimeType": "image/png", "data": PICTURE}, LEFT_PART),
    "sound": (
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        {"type": "audio/wav", "bytes": 3, "left_out": "it is no text"},
    ),
    "picture without its type": (
        {"type": "image", "data": "AAAA"},
        {"type": "application/octet-stream", "bytes": 3, "left_out": "it is no text"},
    ),
    "bytes": (
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/png", "blob": PICTURE}},
        {"uri": "file:///a"} | LEFT_PART,
    ),
    "bytes that are text": (
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "blob": "aGVsbG8="}},
        {"uri": "file:///a", "content": "hello"},
    ),
    "structure with a picture": (
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "application/json", "text": json.dumps([PICTURE])}},
        {"uri": "a:b", "content": [LEFT]},
    ),
    "text that is a picture": ({"type": "text", "text": PICTURE}, LEFT),
    "link": (
        {"type": "resource_link", "uri": "file:///b", "mimeType": "image/png", "size": 7, "description": "D"},
        {"uri": "file:///b", "name": "file:///b", "type": "image/png", "bytes": 7, "description": "D"},
    ),
    "a kind of tomorrow": ({"type": "table", "rows": [[1]]}, '{"type": "table", "rows": [[1]]}'),
    "plain words": ("hello", "hello"),
}


@pytest.mark.parametrize(("part", "shown"), PARTS.values(), ids=PARTS)
def test_a_part_of_the_content_is_what_a_model_can_read(part, shown):
    assert answered(content=[part]).result == shown


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": [{"type": "text", "text": '{\n  "a": 1\n}'}], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}, {"result": 5}),
        ({"content": [{"type": "text", "text": "hi"}], "structuredContent": {"content": "hi"}}, {"content": "hi"}),
        (
            {
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "structuredContent": {"result": ["a", "b"]},
            },
            {"result": ["a", "b"]},
        ),
        ({"content": [], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": None, "structuredContent": [1, 2]}, {"result": [1, 2]}),
        (
            {"content": [{"type": "text", "text": "It is warm."}], "structuredContent": {"t": 22}},
            {"structuredContent": {"t": 22}, "content": "It is warm."},
        ),
        (
            {
                "content": [
                    {"type": "text", "text": '{"t": 22}'},
                    {"type": "image", "mimeType": "image/png", "data": PICTURE},
                ],
                "structuredContent": {"t": 22},
            },
            {"structuredContent": {"t": 22}, "content": LEFT_PART},
        ),
        (
            {
                "content": [{"type": "image", "mimeType": "image/png", "data": PICTURE}],
                "structuredContent": {"shots": [{"data": PICTURE, "mimeType": "image/png"}]},
            },
            {"shots": [{"data": LEFT, "mimeType": "image/png"}]},
        ),
        ({"content": "words alone"}, "words alone"),
        ({"content": {"type": "text", "text": "one part"}}, "one part"),
        ({"content": [], "isError": None, "structuredContent": None, "_meta": None}, None),
    ],
)
def test_structure_and_text_that_say_the_same_are_given_once(result, shown):
    assert answered(**result).result == shown


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"content": [], "isError": True, "structuredContent": {"code": "E7"}}, 'the tool failed: {"code": "E7"}'),
        ({"content": [{"type": "text", "text": "no"}], "isError": True}, "the tool failed: no"),
        (
            {"content": [{"type": "text", "text": "no"}], "isError": True, "structuredContent": {"code": "E7"}},
            'the tool failed: {"structuredContent": {"code": "E7"}, "content": "no"}',
        ),
        ({"content": [], "isError": True}, "the tool failed: it does not say why"),
        (
            {"content": [{"type": "text", "text": f"no: {PICTURE}"}], "isError": True},
            f"the tool failed: no: {LEFT}",
        ),
    ],
)
def test_an_error_says_all_that_it_carries(result, said):
    found = answered(**result)
    assert (found.error, found.outcome) == (said, Outcome.UNKNOWN)


def test_a_picture_does_not_count_against_the_bytes_of_a_result():
    line = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": "ID",
            "result": {"content": [{"type": "image", "mimeType": "image/png", "data": PICTURE}]},
        }
    ).replace('"ID"', "ID")
    assert one("act", server=saying(line, result_bytes=200)).result == LEFT_PART


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity", "9" * 400, "0." + "1" * 400])
def test_a_number_that_no_journal_keeps_is_made_fit(number):
    line = (
        f'{{"jsonrpc": "2.0", "id": ID, "result": {{"content": [], "structuredContent": {{"n": {number}, "m": 1}}}}}}'
    )
    found = one("act", server=saying(line))
    assert (found.error or found.result["m"]) == 1


@pytest.mark.parametrize("levels", [50, 60])
def test_deep_structures_are_read(levels):
    deep = "[" * levels + "1" + "]" * levels
    line = f'{{"jsonrpc": "2.0", "id": ID, "result": {{"content": [], "structuredContent": {{"a": {deep}}}}}}}'
    assert json.dumps(one("act", server=saying(line)).result) == f'{{"a": {deep}}}'


@pytest.mark.parametrize("levels", [100, 150, 1_900])
def test_structures_that_are_too_deep_are_one_sentence(levels):
    deep = "[" * levels + "1" + "]" * levels
    line = f'{{"jsonrpc": "2.0", "id": ID, "result": {{"content": [], "structuredContent": {{"a": {deep}}}}}}}'
    found = one("act", server=saying(line))
    said = getattr(found, "error", "") or found.message
    assert found.outcome in (Outcome.ANSWERED, Outcome.UNKNOWN)
    assert "deep" in said or "no JSON-RPC" in said


@pytest.mark.parametrize("flag", [{"isError": "true"}, {"isError": 1}, {"is_error": True}])
def test_an_error_is_one_however_its_server_writes_true(flag):
    found = answered(content=[{"type": "text", "text": "no"}], **flag)
    assert (found.result, found.error) == (None, "the tool failed: no")
