"""Numbers: each is in a source, was calculated from what is, or follows by a formula that stands beside it (docs/specification/gates.md)."""

import time
from decimal import Decimal

import pytest

from fabric.core.grounding import numbers
from fabric.core.grounding.numbers import Values, evaluate, formulas
from fabric.core.grounding.sources import Calculation, Sources

REPORT = """Revenue was $1,249,500 in 2025 against 980.000 EUR the year before; costs came to 1 049 300.
The margin was 16.02 %, headcount 4'812, and the office in Porto has 37 desks. Returns: 0.125 of all orders.
Population 1.2 million; the index fell by -3.4 points. Invoice 4/7 lists 12,5 kg."""
SOURCES = Sources(
    request="Compare with a target of 15 %.",
    documents=(("report.md", REPORT),),
    results=({"rows": [{"city": "Porto", "orders": 8_214}, {"rate": 0.31}]},),
)


def unfounded(text, sources=SOURCES):
    return [one.removeprefix("text: ").partition(" is in no source")[0] for one in numbers.problems(text, sources)]


@pytest.mark.parametrize(
    "text",
    [
        "Revenue was 1,249,500 dollars.",
        "Revenue was $1.2495 million, or 1249.5k.",
        "Revenue was 1.249.500 EUR (European writing), 1 249 500 with blanks.",
        "The year before it was 980,000.",
        "Costs: 1,049,300.00",
        "A margin of 16.02% and a target of 15 percent.",
        "Some 12.5 % of the orders came back, 0.125 of them.",
        "Headcount 4,812; 37 desks; 8,214 orders at a rate of 31 %.",
        "1.2 million people, 1,200,000 of them; the index lost 3.4 points.",
        "It weighs 12.5 kg.",
        "About $1.2 million in revenue.",
    ],
)
def test_a_number_of_a_source_is_one_however_it_is_written(text):
    assert unfounded(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "On 14 March 2024, on March 3, 2023, on 2024-05-06 and on 6.5.2024.",
        "In 2019 and since 2021, from 1998 to 2004, fiscal year 2023, (2018).",
        "At 10:30, at 9 am, at 23:59:59.",
        "See section 3.2, § 14, page 88, figures 5 and 6, table 19 and Appendix B2.",
        "1. First\n2. Second\n3) Third\n## 4.1 Results\n- 5. Fifth",
        "Version 3.11.7, Python 3.12, v2.9, GPT-4, A4, RFC 7617, ISO 9001, Q3 2024.",
        "The 1st, 22nd and 43rd of them [report.md] [99].",
        "See https://example.org/2024/991?x=77.",
    ],
)
def test_what_names_a_place_or_a_day_is_no_claim(text):
    assert [one.shown for one in numbers.claims(text)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Revenue was 1,249,501.", ["1,249,501"]),
        ("Revenue was $1.3 million.", ["$1.3 million"]),
        ("A margin of 16.2%.", ["16.2%"]),
        ("A margin of 16 %.", ["16 %"]),
        ("There are 38 desks and 38 chairs.", ["38"]),
        ("1602 items", ["1602"]),
        ("It employs 2000 people in 2024.", ["2000"]),
        ("It grew by 27.5 %.", ["27.5 %"]),
        ("10-71 of them", ["10", "71"]),
        ("99/37 of them", ["99"]),
        ("It is 1,23,456.", ["1,23,456"]),
        ("It is 9" + "9" * 60, ["9" * 40]),
    ],
)
def test_what_stands_on_nothing_is_named(text, found):
    assert unfounded(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "1,249,500 - 980,000 = 269,500",
        "It grew by (1,249,500 − 980,000) / 980,000 = 27.5 %.",
        "It grew by (1249500 - 980000) / 980000 × 100 = 27.50, so by 27.5 %.",
        "37 × 12 = 444, and 444 desks a year are many.",
        "8,214 / 12 ≈ 684.5 a month, nearly 685.",
        "15% + 16.02% = 31.02%",
    ],
)
def test_what_follows_by_a_stated_formula_is_founded(text):
    assert unfounded(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("37 × 12 = 445", "text: 37 × 12 = 445 does not come out"),
        ("8,214 / 12 = 684.6", "text: 8,214 / 12 = 684.6 does not come out"),
        ("37 / 0 = 5", "text: 37 / 0 = 5 does not come out"),
        ("5,555 + 37 = 5,592", "text: 5,555 is in no source and no tool's answer, and follows from no stated formula"),
    ],
)
def test_a_formula_that_does_not_come_out_or_starts_from_nothing_is_told(text, problem):
    assert problem in numbers.problems(text, SOURCES)


def calculated(*calls):
    return Sources(documents=SOURCES.documents, calculations=tuple(Calculation(*call) for call in calls))


def test_a_calculators_result_counts_within_rounding():
    sources = calculated(("(1249500-980000)/980000*100", "27.5"), ("4812/37", "130.05405405405405405"))
    assert unfounded("It grew by 27.5 %, at 130.05 people a desk, say 130.1 or 130.", sources) == []
    assert unfounded("At 130.06 people a desk.", sources) == ["130.06"]


def test_a_calculator_makes_no_number_true_that_it_was_not_given():
    assert unfounded("It is 7777.", calculated(("7777", "7777"))) == ["7777"]
    assert unfounded("It is 7777.", calculated(("7770+7", "7777"))) == ["7777"]
    assert unfounded("It is 7777.", calculated(("4812+2965", "7777"))) == ["7777"]


def test_a_result_may_be_calculated_with():
    assert unfounded("So 4,849 and 9,698.", calculated(("4812+37", "4849"), ("4849*2", "9698"))) == []


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1,000 + 1", "1001"),
        ("2 ** 10", "1024"),
        ("(2 + 3) * -4", "-20"),
        ("50 % × 4", "2.0"),
        ("1 / 0", None),
        ("9 ** 9 ** 9", None),
        ("__import__('os')", None),
        ("1 +", None),
    ],
)
def test_an_expression_is_calculated_or_is_none(expression, result):
    assert evaluate(expression) == (None if result is None else Decimal(result))


@pytest.mark.parametrize(
    "text",
    [
        "1" * 200_000,
        "1 " * 100_000,
        "1" + " " * 200_000 + "=",
        "(" * 200_000,
        "9," * 100_000,
        "a" * 200_000,
        "1+" * 100_000,
    ],
)
def test_hostile_texts_are_read_in_time(text):
    began = time.process_time()
    numbers.problems(text, SOURCES)
    assert time.process_time() - began < 5


def test_2000_numbers_are_checked_and_with_more_the_answer_fails():
    assert numbers.problems("37 " * 2_000, SOURCES) == []
    assert numbers.problems("37 " * 2_001, SOURCES) == ["text: more than 2,000 numbers, which are too many to check"]


# -- hostile texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [10_000, 20_000])
def test_a_text_full_of_rounded_numbers_costs_a_few_comparisons_each_however_many_the_sources_hold(of):
    """1,900 of them against 30,000 values were a hundred million comparisons."""
    known = numbers.known_in(Sources(documents=(("a.md", " ".join(f"{n * 7}.5" for n in range(of))),)))
    stated = numbers.claims(" ".join(f"{n}.25 million" for n in range(1, 1_900)))
    exact = Values(Decimal(n) for n in range(1_000))
    assert [one for one in numbers.judge_claims(stated, (), known, exact) if one.problem]
    assert known.values.compared + exact.compared < len(stated) * 50


def test_a_chain_of_operands_that_comes_to_nothing_is_read_once():
    """A blank that two places might take was tried in both, for each of twenty operands."""
    assert formulas("1 + " * 5_000) == []
    assert len(numbers.problems("section " + "1-" * 5_000 + "1a", Sources())) == 1


def test_values_are_found_by_range_while_they_grow():
    values = Values(Decimal(n) for n in (1, 5, 9))
    assert values.is_between(Decimal("4.5"), Decimal("5.5"))
    assert not values.is_between(Decimal(6), Decimal("8.9"))
    values.add(Decimal(7))
    assert values.is_between(Decimal(6), Decimal("8.9"))
    assert Decimal(7) in values
    assert not values.is_between(Decimal(10), Decimal(11))


def test_digits_without_a_value_must_stand_in_a_source_as_they_are():
    source = Sources(documents=(("a.md", "The key is 12,3456,7 and so on."),))
    assert numbers.problems("It is 12,3456,7 then.", source) == []
    assert numbers.problems("It is 12,3456,8 then.", source)
