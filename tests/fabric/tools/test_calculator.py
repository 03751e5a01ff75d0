import pytest

from fabric.tools.answers.outcome import ToolError
from fabric.tools.calculator import FUNCTIONS, OPERATORS, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 1", "2"),
        ("0.1 + 0.2", "0.3"),
        ("(1249.5 - 980) / 980 * 100", "27.5"),
        ("2 ** 100", "1267650600228229401496703205376"),
        ("2 ** -1", "0.5"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("+-3", "-3"),
        ("round(2.345, 2)", "2.35"),
        ("round(1234, -2)", "1200"),
        ("sqrt(16)", "4"),
        ("sum(1, 2, 3.5) - avg(2, 4) + max(1, 9) - min(4, 2)", "10.5"),
        ("abs(-2) + floor(1.9) + ceil(1.1)", "5"),
        ("1_000.5", "1000.5"),
        ("1e-30", "1E-30"),
        ("0 * 5", "0"),
        ("  7  ", "7"),
    ],
)
def test_arithmetic_is_exact_in_decimals(expression, value):
    assert calculate(expression) == {"expression": expression, "value": value, "exact": "round" not in expression}


def test_what_is_rounded_says_so():
    assert calculate("1 / 3") == {"expression": "1 / 3", "value": "0." + "3" * 50, "exact": False}


def test_every_operator_and_function_is_tried_above_or_below():
    assert len(OPERATORS) == 7
    assert sorted(FUNCTIONS) == ["abs", "avg", "ceil", "floor", "max", "min", "round", "sqrt", "sum"]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("1 / 0", "divides by zero"),
        ("1 // 0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("0 ** -1", "divides by zero"),
        ("9 ** 9 ** 9", "exponent 387420489 is larger than 1000"),
        ("9 ** 999 * 9 ** 999", "larger than 1e1000"),
        ("1e5000", "larger than 1e1000"),
        ("1e999 // 3", "no value in real numbers"),
        ("sqrt(-1)", "no value in real numbers"),
        ("(-8) ** 0.5", "no value in real numbers"),
        ("-" * 60 + "1", "deeper than 50"),
        ("(" * 300 + "1" + ")" * 300, "601 characters"),
        ("1 +", "is no arithmetic expression"),
        ("1,234", "without a thousands separator"),
        ("2 ^ 3", "write ** for a power"),
        ("x + 1", "'x' is not known"),
        ("__import__('os').system('true')", "is no arithmetic"),
        ("open('/etc/passwd')", "'open' is not known"),
        ("(1).real", "is no arithmetic"),
        ("[1][0]", "is no arithmetic"),
        ("'a' * 9", "is no arithmetic"),
        ("True + 1", "is no arithmetic"),
        ("1j", "is no arithmetic"),
        ("1 if 1 else 2", "is no arithmetic"),
        ("max(*[1])", "is no arithmetic"),
        ("abs(1, 2)", "abs takes one argument, not 2"),
        ("max()", "max takes 1 to 100 arguments, not 0"),
        ("round(1, 99)", "between -50 and 50"),
        ("round(1, 0.5)", "between -50 and 50"),
        ("\0", "is no arithmetic expression"),
    ],
)
def test_bombs_and_nonsense_get_one_sentence(expression, said):
    with pytest.raises(ToolError) as caught:
        calculate(expression)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
