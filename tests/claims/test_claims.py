"""Each *.toml here is a document's list of claims, and each claim names the tests that show it.

ids = ["1-121", "T1-T24"]                 # every claim of the document; or: rows = 121, which is ids = ["1-121"]

[[row]]
id = "1"
says = "Every run passes through five stages."     # at most twelve words
tests = ["tests/fabric/core/engine/test_clean_runs.py::test_a_clean_run"]    # or ::TestClass::test_name
differs = "A sentence that says why the document is better served otherwise."    # only where it is
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(Path(__file__).parent.glob("*.toml"))
FIELDS = {"id", "says", "tests", "differs"}
WORDS = 12
SPAN = re.compile(r"([^\W\d]*)(\d+)-\1(\d+)")


def read_ids(table: dict) -> list[str]:
    """Return the id of every claim of the document: a span such as "T1-T24" stands for each number in it."""
    spans = table.get("ids", [f"1-{table['rows']}"] if "rows" in table else [])
    ids: list[str] = []
    for span in spans:
        found = SPAN.fullmatch(span)
        ids += [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)] if found else [span]
    return ids


@cache
def list_tests(file: str) -> frozenset[str]:
    """Return the names of the test functions of one file, those of a class as Class::name; none without the file."""
    path = ROOT / file
    if not re.fullmatch(r"tests/.*/?test_\w+\.py", file) or not path.is_file():
        return frozenset()
    return frozenset(name for name in named(ast.parse(path.read_text())) if name.split("::")[-1].startswith("test"))


def named(tree: ast.Module | ast.ClassDef, before: str = "") -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield before + node.name
        elif isinstance(node, ast.ClassDef):
            yield from named(node, f"{before}{node.name}::")


def problems_of(table: dict) -> Iterator[str]:
    """Yield one sentence for each thing that is wrong with a document's table."""
    ids = read_ids(table)
    rows = table.get("row", [])
    if not ids:
        yield "the header names no claim: write `ids` or `rows`"
    counts = Counter(row["id"] for row in rows)
    yield from (f"row {name} is missing" for name in ids if name not in counts)
    yield from (f"row {name} is no claim of the document" for name in counts if name not in ids)
    yield from (f"row {name} is there {times} times" for name, times in counts.items() if times > 1)
    for row in rows:
        yield from (f"row {row['id']}: {problem}" for problem in problems_in(row))


def problems_in(row: dict) -> Iterator[str]:
    yield from (f"no field is called {field}" for field in sorted(row.keys() - FIELDS))
    said = row.get("says", "").split()
    if not 1 <= len(said) <= WORDS:
        yield f"`says` has {len(said)} words, and a claim is told in 1 to {WORDS}"
    if "differs" in row and not row["differs"].strip().endswith("."):
        yield "`differs` is a sentence, with its full stop"
    tests = row.get("tests", [])
    if not tests:
        yield "no test shows it"
    yield from (f"{test} is named twice" for test, times in Counter(tests).items() if times > 1)
    for test in tests:
        file, _, name = test.partition("::")
        if name not in list_tests(file):
            yield f"there is no test {test}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_claim_of_a_document_names_tests_that_exist(path):
    assert list(problems_of(tomllib.loads(path.read_text()))) == []


HERE = "tests/claims/test_claims.py::test_each_claim_of_a_document_names_tests_that_exist"
ROWS: list[dict] = [{"id": name, "says": "It holds.", "tests": [HERE]} for name in ("1", "2", "T1")]
GOOD = {"ids": ["1-2", "T1"], "row": ROWS}


def test_a_whole_table_has_no_problem():
    assert list(problems_of(GOOD)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ids": []}, "the header names no claim: write `ids` or `rows`"),
        ({"ids": ["1-3", "T1"]}, "row 3 is missing"),
        ({"ids": ["1-2"]}, "row T1 is no claim of the document"),
        ({"row": [*ROWS, ROWS[0]]}, "row 1 is there 2 times"),
    ],
)
def test_a_table_that_is_not_whole_is_found(change, problem):
    assert problem in list(problems_of({**GOOD, **change}))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tests": []}, "no test shows it"),
        ({"tests": [HERE, HERE]}, f"{HERE} is named twice"),
        ({"tests": ["tests/claims/test_claims.py::test_nothing"]}, "no test tests/claims/test_claims.py::test_nothing"),
        ({"tests": ["tests/claims/test_claims.py::problems_of"]}, "no test tests/claims/test_claims.py::problems_of"),
        ({"tests": ["tests/claims/test_gone.py::test_x"]}, "there is no test tests/claims/test_gone.py::test_x"),
        ({"says": ""}, "`says` has 0 words"),
        ({"says": "word " * 13}, "`says` has 13 words"),
        ({"differs": "because"}, "`differs` is a sentence"),
        ({"note": "x"}, "no field is called note"),
    ],
)
def test_a_row_that_shows_nothing_is_found(change, problem):
    [found] = problems_in({**ROWS[0], **change})
    assert problem in found
