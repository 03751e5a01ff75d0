"""Packing: nothing is lost by it, what was stored before is read, and what is damaged raises nothing."""

import json
from hashlib import sha256
from threading import Barrier, Thread

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from fabric.packing import dictionary_1
from fabric.packing.rows import DICTIONARIES, MAGIC, MAX_BYTES, NEWEST, check_dictionary, pack, unpack
from tests.data import golden

HEADER = b'{"e":[1795358736415311,"","1c30f557e886da12070b39e0d13158d3",1169],"d":{"command_id":"plan.0.e0.r0.t1","attempt":1}}'
PACKED = bytes.fromhex(
    "28b52ffd210174ad0100530308d3e498276a51d87831dd8f4beedb66a70ec27fadd55d93995763e6d6836db51806fcfdae5c350056f66ad2c4d05d444b6503"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_json_comes_back_as_it_was_and_is_never_longer(value):
    raw = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    assert len(pack(raw)) <= len(raw)
    assert unpack(pack(raw)) == raw


@given(st.binary() | st.binary().map(MAGIC.__add__))
@example(MAGIC)
@example(pack(HEADER))
def test_any_bytes_come_back_as_they_were(raw):
    assert unpack(pack(raw)) == raw


def test_every_row_of_the_golden_journals_comes_back_and_takes_half_the_room():
    raw = [
        part
        for path in golden.files()
        for run in golden.read(path)
        for row in run["rows"]
        for part in (row.header, row.payload)
        if part is not None
    ]
    packed = [pack(part) for part in raw]
    assert list(map(unpack, packed)) == raw
    assert len(raw) > 1_000
    assert sum(map(len, packed)) < 0.5 * sum(map(len, raw))


@given(JSON)
def test_what_was_stored_before_there_was_packing_is_read(value):
    raw = json.dumps(value).encode()
    assert unpack(raw) == raw


def test_what_packing_does_not_make_shorter_is_stored_as_it_is():
    assert pack(b"{}") == b"{}"
    assert pack(HEADER).startswith(MAGIC)


# -- the dictionary ----------------------------------------------------------------------------------------------------


def test_the_dictionaries_are_for_ever():
    """Rows lie packed under them. Do not change what is here: add a dictionary, with the next number, and its line."""
    assert {number: sha256(content).hexdigest() for number, content in DICTIONARIES.items()} == {
        1: "057a8347e697394422fd0ad98538e39e1fc3c3051b45dcd605c8d71e2a96062b",
    }
    assert all(zstandard.ZstdCompressionDict(content).dict_id() == number for number, content in DICTIONARIES.items())
    assert max(DICTIONARIES) == NEWEST


def test_what_the_first_version_packed_is_read():
    assert unpack(PACKED) == HEADER


def test_another_dictionary_is_refused():
    assert check_dictionary(dictionary_1.CONTENT, dictionary_1.SHA256) == dictionary_1.CONTENT
    with pytest.raises(RuntimeError, match="put the file back"):
        check_dictionary(dictionary_1.CONTENT[:-1] + b"?", dictionary_1.SHA256)


# -- damage ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_changed_byte_raises_nothing(place, change):
    changed = PACKED[:place] + bytes([PACKED[place] ^ change]) + PACKED[place + 1 :]
    assert isinstance(unpack(changed), bytes)


@pytest.mark.parametrize(
    "stored",
    [MAGIC, PACKED[:-1], PACKED[: len(PACKED) // 2], PACKED + b"\0", PACKED + PACKED],
    ids=["nothing in it", "its end cut off", "half of it", "a byte more", "twice"],
)
def test_what_cannot_be_unpacked_is_given_as_it_is_stored(stored):
    assert unpack(stored) == stored


def test_a_dictionary_that_this_program_does_not_know_unpacks_nothing():
    another = zstandard.train_dictionary(
        4_096, [HEADER[n % 40 :] + str(n).encode() for n in range(2_000)], dict_id=NEWEST + 1
    )
    stored = zstandard.ZstdCompressor(dict_data=another).compress(HEADER)
    assert zstandard.get_frame_parameters(stored).dict_id == NEWEST + 1
    assert unpack(stored) == stored


def test_what_says_that_it_is_too_large_or_does_not_say_how_large_it_is_stays_packed():
    dictionary = zstandard.ZstdCompressionDict(DICTIONARIES[NEWEST])
    for size, whole in ((MAX_BYTES, True), (MAX_BYTES + 1, False)):
        stored = zstandard.ZstdCompressor(dict_data=dictionary).compress(bytes(size))
        assert (unpack(stored) == bytes(size)) is whole
        assert (unpack(stored) == stored) is not whole
    unsaid = zstandard.ZstdCompressionParameters.from_level(3, write_content_size=False)
    stored = zstandard.ZstdCompressor(dict_data=dictionary, compression_params=unsaid).compress(HEADER)
    assert zstandard.ZstdDecompressor(dict_data=dictionary).decompress(stored, MAX_BYTES) == HEADER
    assert unpack(stored) == stored


def test_what_would_not_be_unpacked_is_not_packed():
    raw = b'"' + b"x" * (MAX_BYTES - 1) + b'"'
    assert len(raw) == MAX_BYTES + 1
    assert pack(raw) == raw


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_do_not_disturb_one_another():
    """Large enough that one of them is still at it when the next begins."""
    together, wrong = Barrier(4), []

    def work(n):
        raw = b"".join(sha256(b"%d %d" % (n, k)).hexdigest().encode() for k in range(20_000))
        together.wait()
        wrong.extend((n, k) for k in range(10) if unpack(pack(raw)) != raw)

    threads = [Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
