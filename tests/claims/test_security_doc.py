"""docs/security.md: every requirement has one row, and every row that says it is held names a test that is there."""

import re

import pytest

from tests.claims.test_claims import ROOT, list_tests

SECURITY = ROOT / "docs" / "security.md"
STATES = {"held", "partly", "open", "operator", "none"}
TESTED = {"held", "partly"}
CHAPTERS = 17
_row = re.compile(r"^\| ((?:V\d+\.\d+|LLM\d\d|ASI\d\d|W\d\d)) \| ([^|]+) \| (\w+) \|(.*)\|$")
_test = re.compile(r"`(tests/[\w/]+\.py::[\w:]+)`")


def rows(text):
    return [found.groups() for line in text.splitlines() if (found := _row.match(line))]


def problems_of(text):
    """One sentence for each thing that is wrong."""
    found = rows(text)
    ids = [one[0] for one in found]
    for prefix in ("LLM", "ASI"):
        wanted = [f"{prefix}{number:02}" for number in range(1, 11)]
        if [name for name in ids if name.startswith(prefix)] != wanted:
            yield f"{prefix}01 to {prefix}10 are not each there once, in their order"
    chapters = {int(name[1:].split(".")[0]) for name in ids if name.startswith("V")}
    yield from (f"V{number} has no row" for number in range(1, CHAPTERS + 1) if number not in chapters)
    yield from (f"{name} is there twice" for name in sorted({name for name in ids if ids.count(name) > 1}))
    for name, _, state, how in found:
        tests = _test.findall(how)
        if state not in STATES:
            yield f"{name} has the state {state}"
        if bool(tests) != (state in TESTED):
            yield f"{name} is {state} and names {len(tests)} tests"
        yield from (
            f"{name}: there is no test {one}"
            for one in tests
            if one.split("::", 1)[1] not in list_tests(one.split("::")[0])
        )


def test_every_requirement_has_a_row_and_every_row_its_test():
    assert list(problems_of(SECURITY.read_text())) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("| LLM03 |", "| LLM04 |", "LLM01 to LLM10 are not each there once"),
        ("| V17.1 |", "| V16.1 |", "V17 has no row"),
        ("| V1.4 | memory safety | none |", "| V1.4 | memory safety | held |", "V1.4 is held and names 0 tests"),
        ("::test_html_and_images_are_text`", "::test_nothing_of_the_kind`", "LLM10: there is no test"),
        ("| ASI10 | rogue agents | held |", "| ASI10 | rogue agents | done |", "ASI10 has the state done"),
    ],
)
def test_a_table_that_is_not_whole_is_found(old, new, problem):
    text = SECURITY.read_text()
    assert old in text
    assert any(problem in one for one in problems_of(text.replace(old, new, 1)))


def test_the_picture_and_the_times_to_mend_are_there():
    text = (ROOT / "SECURITY.md").read_text()
    (picture,) = re.findall(r"\]\((docs/pictures/[\w-]+\.svg)\)", text)
    drawn = (ROOT / picture).read_text()
    for part in ("Proxy", "Web server", "Worker", "Database", "Broker", "Model endpoint", "HTTP tool", "Webhook"):
        assert f">{part}" in drawn, part
    assert "| critical" in text
