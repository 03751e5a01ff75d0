"""Sentences about values that a field does not take: plain, with the value, and total over what pydantic finds in a fabric."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from fabric.core.texts.wrong_values import describe_wrong_value


class Inner(BaseModel):
    """A group of fields."""


class Row(BaseModel):
    """One field of each kind."""

    whole: int = Field(default=1, ge=1, le=9)
    number: float = Field(default=1.0, gt=0, lt=1_000, allow_inf_nan=False)
    flag: bool = False
    text: str = Field(default="aa", min_length=2, max_length=4)
    word: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = "a"
    kind: Literal["a", "b"] = "a"
    items: list[int] = Field(default=[], max_length=2)
    inner: Inner = Inner()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("whole", "ten", "'ten' is no whole number"),
        ("whole", 1.5, "1.5 is no whole number"),
        ("whole", None, "is empty; give it a value"),
        ("whole", 0, "0 is too small; at least 1"),
        ("whole", 10, "10 is too large; at most 9"),
        ("number", "x", "'x' is no number"),
        ("number", 0, "0 is too small; it has to be more than 0"),
        ("number", 1_000, "1000 is too large; it has to be less than 1000"),
        ("number", float("nan"), "nan is no finite number"),
        ("flag", "perhaps", "'perhaps' is neither true nor false"),
        ("text", 1, "1 is no text; write it in quotes"),
        ("text", "", "is empty; give it a value"),
        ("text", "a", "'a' is too short; at least 2 characters"),
        ("text", "a" * 70, f"'{'a' * 56}... is too long; at most 4 characters"),
        ("word", " ", "' ' is too short; at least 1 character"),
        ("kind", "c", "'c' is none of a, b"),
        ("items", 3, "3 is no list"),
        ("items", [1, 2, 3], "a list has 3 items; at most 2"),
        ("inner", 3, "3 is no group of fields; give fields with values"),
        ("inner", [], "a list is no group of fields; give fields with values"),
        ("inner", None, "is empty; give it a value"),
    ],
)
def test_a_sentence_says_the_value_and_what_to_give(field, value, said):
    with pytest.raises(ValidationError) as refused:
        Row.model_validate({field: value})
    assert describe_wrong_value(refused.value.errors()[0]) == said


def test_an_error_without_a_sentence_has_pydantics_words():
    detail = {"type": "url_scheme", "loc": (), "input": "x", "msg": "URL scheme should be 'http'"}
    assert describe_wrong_value(detail) == "'x': URL scheme should be 'http'"
