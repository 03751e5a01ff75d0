"""Answers of models that come packed, whether that was asked for or not, over real HTTP in each provider's own protocol."""

import gzip
import tracemalloc
import zlib
from dataclasses import replace

import brotli
import pytest
import zstandard

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.providers.exchange.wire import STREAM_TYPE
from simulator.endpoint import Step
from tests.fabric.http.packed_bodies import PACK, WAYS, bomb
from tests.fabric.providers.asking import TOOL
from tests.fabric.providers.wires import STREAMED

CALLS = ("I look.", [("look", {"at": "the first place"}, "a"), ("look", {"at": "the second"}, "b")], (12, 34))


@pytest.fixture(params=STREAMED, ids=lambda spoken: spoken.name)
def spoken(request):
    return request.param


def packed(step, name, pack):
    return replace(step, body=pack(step.body), headers={**step.headers, "Content-Encoding": name})


def flushed(name, events):
    """Each event packed and sent by itself, and the end of the packing."""
    if name == "br":
        engine = brotli.Compressor()
        yield from (engine.process(event) + engine.flush() for event in events)
        yield engine.finish()
        return
    if name == "zstd":
        packing = zstandard.ZstdCompressor().compressobj()
        yield from (packing.compress(event) + packing.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for event in events)
        yield packing.flush()
        return
    bits = zlib.MAX_WBITS | 16 if name.endswith("gzip") else zlib.MAX_WBITS
    deflating = zlib.compressobj(9, zlib.DEFLATED, bits)
    yield from (deflating.compress(event) + deflating.flush(zlib.Z_SYNC_FLUSH) for event in events)
    yield deflating.flush()


def streams(spoken, pieces, name, told):
    step = Step(content_type=STREAM_TYPE, pieces=tuple(pieces), headers={"Content-Encoding": name})
    result, received = spoken.ask(step, spec={"options": {"stream": True}}, tools=(TOOL,), streamed=told.append)
    assert len(received) == 1
    return result


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_a_packed_answer_is_the_answer(spoken, name, pack):
    plain, _ = spoken.ask(spoken.answer(*CALLS), tools=(TOOL,))
    result, received = spoken.ask(packed(spoken.answer(*CALLS), name, pack), tools=(TOOL,))
    assert isinstance(result, ModelReplied)
    assert result == plain
    assert received[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("name", sorted(PACK))
def test_a_packed_stream_is_read_event_by_event(spoken, name):
    plain, _ = spoken.ask(spoken.answer(*CALLS), tools=(TOOL,))
    told = []
    assert streams(spoken, flushed(name, spoken.events(*CALLS)), name, told) == plain
    assert [one.calls for one in told] == [plain.calls[:1], plain.calls]


def test_a_stream_that_is_over_needs_no_end_of_its_packing(spoken):
    whole = list(flushed("gzip", spoken.events(*CALLS)))
    assert isinstance(streams(spoken, whole[:-1], "gzip", []), ModelReplied)
    cut = streams(spoken, whole[:2], "gzip", [])
    assert (cut.cause, cut.billed) == (Cause.DROPPED_STREAM, True)


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_bomb_is_one_sentence(spoken, name, stream):
    packed_bytes = bomb(name)
    tracemalloc.start()
    if stream:
        result = streams(spoken, (packed_bytes,), name, [])
    else:
        result, _ = spoken.ask(Step(body=packed_bytes, headers={"Content-Encoding": name}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(result, CallFailed)
    assert result.cause is Cause.MALFORMED_ANSWER
    assert "larger than 10,000,000 bytes" in result.message
    assert peak < 60_000_000  # The answer so far, its last line and a copy or two of it; the bomb has 40 MB.


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"no gzip", "says that it is packed (gzip), but cannot be unpacked"),
        (gzip.compress(b'{"a": 1}')[:-1], "is packed (gzip) and ends before it is whole"),
    ],
    ids=["not packed", "cut"],
)
def test_a_packing_that_lies_is_one_sentence(spoken, body, said):
    result, received = spoken.ask(Step(body=body, headers={"Content-Encoding": "gzip"}))
    assert result.cause is Cause.MALFORMED_ANSWER
    assert said in result.message
    assert len(received) == 1


@pytest.mark.parametrize("pack", [gzip.compress, lambda body: b"no gzip"])
def test_a_refusal_is_read_however_it_comes(spoken, pack):
    step = packed(spoken.refusal(429, "too many", ""), "gzip", pack)
    result, _ = spoken.ask(replace(step, headers={**step.headers, "Retry-After": "3"}))
    assert (result.cause, result.status, result.retry_after_s, result.billed) == (Cause.RATE_LIMIT, 429, 3.0, False)


@pytest.mark.parametrize("wait", ["Fri, 31 Dec 99999999999999 23:59:59 GMT", "9" * 4_000, "-5", "\xff", "1_0"])
def test_a_wait_out_of_range_is_passed_over_and_nothing_is_charged(spoken, wait):
    result, received = spoken.ask(spoken.refusal(429, "too many", "", headers={"Retry-After": wait}))
    assert (result.cause, result.retry_after_s, result.billed, len(received)) == (Cause.RATE_LIMIT, None, False, 1)


ODD = {"X-Odd": "\xff\xfe", "Set-Cookie": "a=\xff; expires=never", "Location": "http://[", "Link": "<\xff>"}


def test_an_answer_with_odd_headers_is_the_answer(spoken):
    result, _ = spoken.ask(replace(spoken.answer("Hello."), headers=ODD))
    assert result.text == "Hello."
