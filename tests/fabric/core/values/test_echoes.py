"""Results without what their own calls had brought (docs/specification/protections.md)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fabric.core.values.fingerprint import ECHO, masked_fingerprint, names_an_item, replace_echoes
from fabric.runtime.ports.journal import Document
from fabric.tools.calculator import calculate
from fabric.tools.documents import search_documents

LONG = "the old lighthouse"

TABLE = [
    ("a whole text of any length", {"q": "ox"}, {"query": "ox"}, {"query": ECHO}),
    ("not within a text where it is short", {"q": "ox"}, "an ox, a box", "an ox, a box"),
    ("within a text from 8 characters on", {"q": "keepers!"}, "no keepers! found", f"no {ECHO} found"),
    ("of 7 characters not", {"q": "keepers"}, "no keepers found", "no keepers found"),
    ("everywhere", {"q": LONG}, [LONG, f"{LONG}: {LONG}"], [ECHO, f"{ECHO}: {ECHO}"]),
    ("the longest first", {"a": "lighthouse", "b": LONG}, f"{LONG}, lighthouse", f"{ECHO}, {ECHO}"),
    (
        "arguments in arguments",
        {"where": {"or": ["red", "tall"]}},
        {"colours": ["red", "blue"]},
        {"colours": [ECHO, "blue"]},
    ),
    ("keys stay", {"q": "query"}, {"query": "x"}, {"query": "x"}),
    ("a text with a digit stays", {"q": "order 17 of May"}, {"said": "order 17 of May"}, {"said": "order 17 of May"}),
    ("but not under its own name", {"q": "1 + 2"}, {"q": "1 + 2", "value": "3"}, {"q": ECHO, "value": "3"}),
    ("at any depth", {"q": "1 + 2"}, {"result": {"q": "1 + 2"}}, {"result": {"q": ECHO}}),
    ("an id stays under its own name", {"id": "A-17"}, {"id": "A-17", "status": "ok"}, {"id": "A-17", "status": "ok"}),
    ("a date stays", {"day": "2024-01-05"}, {"day": "2024-01-05"}, {"day": "2024-01-05"}),
    ("a number stays", {"page": 3}, {"page": 3}, {"page": 3}),
    ("nothing is no echo", {"q": ""}, {"q": "", "rows": 0}, {"q": "", "rows": 0}),
    ("no texts at all", {"page": 3, "all": True}, ["x"], ["x"]),
    ("raw arguments", "a raw text", {"said": "a raw text"}, {"said": ECHO}),
]


@pytest.mark.parametrize(("args", "result", "left"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_is_left_of_a_result(args, result, left):
    assert replace_echoes(result, args) == left


def test_a_result_without_anything_to_take_out_is_not_copied():
    result = {"rows": ["x"]}
    assert replace_echoes(result, {"page": 3, "day": "2024-01-05"}) is result


@pytest.mark.parametrize("given", [7, 1.5, "7", "A-17", "2024-01-05", "2024-01-05T10:00:00", "inv/2024/7", "user_3"])
def test_numbers_dates_and_ids_name_an_item(given):
    assert names_an_item(given)


@pytest.mark.parametrize("given", [True, None, "", "seven", "open", "1 + 2", "2*3", "order 17", ["7"]])
def test_anything_else_does_not(given):
    assert not names_an_item(given)


def alike(results) -> bool:
    hashes = [masked_fingerprint({"result": result}, args) for args, result in results]
    return all(one == other for one, other in pairwise(hashes))


def test_searches_of_the_built_in_tool_that_find_nothing_come_to_the_same():
    documents = [Document("bridge.md", "The bridge is 40 metres long.")]
    asked = ["lighthouse keepers", "keepers of a lighthouse, please", "search 3 for lamps", "ox"]
    assert alike([({"query": query}, search_documents(documents, query)) for query in asked])
    assert not alike([({"query": query}, search_documents(documents, query)) for query in ("ox", "bridge")])


def test_calculations_of_the_built_in_tool_with_one_value_come_to_the_same():
    asked = ["1 + 2", "2 + 1", "(6 - 3)"]
    assert alike([({"expression": one}, calculate(one)) for one in asked])
    assert not alike([({"expression": one}, calculate(one)) for one in ("1 + 2", "1 + 3")])


def test_a_scan_whose_results_name_the_item_always_comes_to_something_else():
    for kind in (int, str, lambda n: f"order-{n}", lambda n: f"2024-01-{n:02}"):
        hashes = {masked_fingerprint({"id": kind(n), "status": "ok"}, {"id": kind(n)}) for n in range(1, 21)}
        assert len(hashes) == 20


def test_accents_may_be_written_either_way():
    assert masked_fingerprint("Cafe\u0301 Zentral: closed", {"q": "Caf\u00e9 Zentral"}) == masked_fingerprint(
        "Grand Hotel: closed", {"q": "Grand Hotel"}
    )
