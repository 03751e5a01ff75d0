"""Canonical JSON, masks and draws: the same wherever they are computed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.values.command_ids import unit
from fabric.core.values.cost import Price, worst_input_tokens
from fabric.core.values.fingerprint import (
    ZERO_HASH,
    canonical,
    content_ref,
    digest,
    encode,
    event_hash,
    fingerprint,
    mask,
    masked_fingerprint,
)

ROOT = Path(__file__).resolve().parents[4]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_encoding_is_one_fixed_form_that_reads_back(value):
    raw = encode(value)
    assert json.loads(raw) == value
    assert encode(json.loads(raw)) == raw


def test_encoding_sorts_keys_and_writes_no_blanks_and_no_escapes():
    assert encode({"b": 1, "a": [1, "é"]}) == '{"a":[1,"é"],"b":1}'.encode()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"deep": [math.nan]}])
def test_what_is_no_json_number_becomes_null(value):
    assert encode(value) in (b"null", b'{"deep":[null]}')


@given(JSON)
def test_a_canonical_form_is_its_own(value):
    assert canonical(canonical(value)) == canonical(value)


def test_whole_floats_are_integers_and_others_stay():
    assert encode(canonical([1.0, -2.0, 1.5, 1e300, True])) == b"[1,-2,1.5,1e300,true]"


@given(st.lists(st.text(max_size=3), min_size=1, max_size=4), st.lists(st.text(max_size=3), min_size=1, max_size=4))
def test_digests_keep_their_parts_apart(one, other):
    assert (digest(*one) == digest(*other)) is (one == other)


def test_fingerprints_and_references_are_128_bits_in_hex():
    for made in (fingerprint({"a": 1}), content_ref(b"x"), digest("a", 1), masked_fingerprint("x")):
        assert len(made) == 32
        int(made, 16)


# -- masks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done at 2024-05-01T10:00:00Z", "done at 2024-05-02T11:30:59Z"),
        ("2024-05-01 10:00", "2023-01-01 23:59"),
        ("[12:00:01] ok", "[12:00:02.345] ok"),
        ("first line\n12:00:01 ok", "first line\n12:00:02 ok"),
        ("tab\t12:00:01", "tab\t12:00:02"),
        ("commit abc123def0", "commit 00ff99aa11"),
        ("id 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "id 6ba7b811-9dad-11d1-80b4-00c04fd430c9"),
        ("took 12 ms", "took 340 ms"),
        ("took 1.5s", "took 2s"),
        ("pid 4711 waits", "pid 99 waits"),
        ("process=4711", "process=12"),
    ],
)
def test_clocks_ids_durations_and_processes_are_masked_in_results(one, other):
    assert mask(one) == mask(other)
    assert masked_fingerprint({"text": one}) == masked_fingerprint({"text": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 rows", "4 rows"),
        ("page 1", "page 2"),
        ("error 404", "error 500"),
        ("abcdef", "abcdee"),
        ("15 failed", "14 failed"),
        ("2024-05-01", "2024-05-02"),
    ],
)
def test_what_says_something_is_not_masked(one, other):
    assert mask(one) != mask(other)
    assert masked_fingerprint([one]) != masked_fingerprint([other])


def test_arguments_are_never_masked():
    assert fingerprint({"at": "12:00:01"}) != fingerprint({"at": "12:00:02"})


def test_masking_keeps_apart_what_lies_in_different_places():
    assert masked_fingerprint({"a": "x"}) != masked_fingerprint({"b": "x"})
    assert masked_fingerprint(["x", "y"]) != masked_fingerprint(["y", "x"])
    assert masked_fingerprint({"n": 1}) != masked_fingerprint({"n": 2})
    assert masked_fingerprint({"b": 1, "a": 2}) == masked_fingerprint({"a": 2, "b": 1})


# -- the chain ---------------------------------------------------------------------------------------------------------


def test_every_part_of_an_event_enters_its_hash():
    parts = (ZERO_HASH, 1, "run_started", 1, b"header", b"payload hash")
    changed = [
        event_hash(*parts),
        event_hash(b"\1" * 32, *parts[1:]),
        event_hash(parts[0], 2, *parts[2:]),
        event_hash(*parts[:2], "run_ended", *parts[3:]),
        event_hash(*parts[:3], 2, *parts[4:]),
        event_hash(*parts[:4], b"headerp", b"ayload hash"),
        event_hash(*parts[:5], b""),
    ]
    assert len(set(changed)) == len(changed)
    assert all(len(made) == 32 for made in changed)


# -- draws and money ---------------------------------------------------------------------------------------------------


@given(st.integers(), st.text(), st.text())
def test_a_draw_lies_in_0_to_1_and_is_the_same_again(seed, purpose, key):
    drawn = unit(seed, purpose, key)
    assert 0.0 <= drawn < 1.0
    assert unit(seed, purpose, key) == drawn


def test_draws_are_spread_evenly_over_keys():
    drawn = [unit(1, "backoff", str(n)) for n in range(20_000)]
    tenths = [sum(n / 10 <= one < (n + 1) / 10 for one in drawn) for n in range(10)]
    # Expected 2,000 each, standard deviation 42.4: five of them either way.
    assert all(abs(count - 2_000) < 213 for count in tenths)
    assert len({unit(1, "backoff", "a"), unit(2, "backoff", "a"), unit(1, "other", "a"), unit(1, "backoff", "b")}) == 4


def test_draws_do_not_depend_on_the_process():
    code = "from fabric.core.values.command_ids import unit; from fabric.core.values.fingerprint import *; print(unit(7, 'a', 'b'), digest('a', 1))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert printed == {f"{unit(7, 'a', 'b')} {digest('a', 1)}\n"}


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**8), st.integers(0, 10**8))
def test_a_cost_is_rounded_up_and_never_by_a_micro_dollar(tokens_in, tokens_out, price_in, price_out):
    exact = tokens_in * price_in + tokens_out * price_out
    cost = Price(price_in, price_out).cost(tokens_in, tokens_out)
    assert exact <= cost * 1_000_000 < exact + 1_000_000


def test_a_token_is_at_least_a_byte():
    assert worst_input_tokens(123) == 123
