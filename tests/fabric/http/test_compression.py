"""Packed bodies, unpacked piece by piece within their bounds."""

import json
import subprocess
import sys

import pytest

from fabric.http.compression import LAYERS_MAX, PACKINGS, NotUnpacked, Unpacker
from tests.fabric.http.packed_bodies import PACK, WAYS

BODY = json.dumps([{"number": number} for number in range(2_000)]).encode()


def unpacked(packed, *names, most=1_000_000, at_once=7):
    unpacker = Unpacker(names, most)
    pieces = [
        piece for start in range(0, len(packed), at_once) for piece in unpacker.unpack(packed[start : start + at_once])
    ]
    unpacker.end()
    return b"".join(pieces)


@pytest.mark.parametrize(("name", "pack"), WAYS)
@pytest.mark.parametrize("at_once", [1, 7, 1_000_000])
def test_each_packing_is_unpacked_however_it_comes(name, pack, at_once):
    assert unpacked(pack(BODY), name, at_once=at_once) == BODY
    assert unpacked(pack(b""), name, at_once=at_once) == b""


def test_every_packing_has_a_test():
    assert set(PACK) == set(PACKINGS)


def test_several_packings_are_undone_from_the_last_to_the_first():
    packed = PACK["zstd"](PACK["br"](PACK["gzip"](BODY)))
    assert unpacked(packed, "gzip", "br", "zstd") == BODY
    with pytest.raises(NotUnpacked, match=f"is packed 4 times; at most {LAYERS_MAX} layers"):
        Unpacker(["gzip"] * 4, 10)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_parts_one_after_another_are_one_body(name):
    assert unpacked(PACK[name](b"one ") + PACK[name](b"two"), name) == b"one two"


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_a_packed_body_that_is_cut_is_refused(name, pack):
    packed = pack(BODY)
    for cut in (1, 2, len(packed) // 2, len(packed) - 1):
        with pytest.raises(NotUnpacked, match="ends before it is whole"):
            unpacked(packed[:cut], name)


@pytest.mark.parametrize(("name", "pack"), WAYS)
@pytest.mark.parametrize("lie", [b'{"a": "it is not packed"}', b"<html>", b"\0" * 100, b"\xff" * 100])
def test_a_packing_that_is_none_is_refused(name, pack, lie):
    if name.endswith("gzip") and lie[:1] in b"{<":
        assert unpacked(lie, name) == lie  # A proxy unpacked it and left the header; gzip never begins so.
        return
    with pytest.raises(NotUnpacked, match=rf"\({name}\)"):
        unpacked(lie, name)


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_what_goes_on_behind_the_packed_end_is_refused(name, pack):
    with pytest.raises(NotUnpacked, match="cannot be unpacked"):
        unpacked(pack(BODY) + b"and more of it", name)


def test_padding_behind_gzip_is_none_of_the_body():
    for padding in (b"\0", b"\0" * 511):
        assert unpacked(PACK["gzip"](BODY) + padding, "gzip") == BODY


def test_an_unknown_packing_is_refused():
    with pytest.raises(NotUnpacked, match="packed in a way that is not known here \\('compress'\\)"):
        Unpacker(["compress"], 10)


@pytest.mark.parametrize("name", sorted(PACK))
def test_a_bound_counts_what_is_unpacked(name):
    assert len(unpacked(PACK[name](b"x" * 1_000_000), name)) == 1_000_000
    with pytest.raises(NotUnpacked, match="larger than 1,000,000 bytes when it is unpacked") as caught:
        unpacked(PACK[name](b"x" * 1_000_001), name)
    assert caught.value.too_large


BOMB = """
import resource, sys
from fabric.http.compression import NotUnpacked, Unpacker
from tests.fabric.http.packed_bodies import PACK
name = sys.argv[1]
part = PACK[name](bytes(20_000_000))
bomb = PACK[name](part * 50)
names = [name, name]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for given, names in ((part, [name]), (bomb, [name, name])):
    unpacker, taken = Unpacker(names, 10_000_000), 0
    try:
        for piece in unpacker.unpack(given):
            taken += len(piece)
    except NotUnpacked as error:
        assert error.too_large, error
    else:
        raise AssertionError(f"{taken} bytes were let through")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("name", sorted(PACK))
def test_a_bomb_takes_little_memory(name):
    """In a process of its own, whose highest use of memory can be read. Packing the bomb has used 20 MB before."""
    done = subprocess.run([sys.executable, "-c", BOMB, name], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16_000
