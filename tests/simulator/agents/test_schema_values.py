"""Values made to fit a schema, compared with a validator of its own."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from simulator.agents.schema_values import arguments, value

TEXT = {"type": "string"}
NODE = {"type": "object", "properties": {"name": TEXT, "next": {"$ref": "#"}}, "required": ["name"]}
SCHEMAS: dict[str, dict[str, Any]] = {
    "text": TEXT,
    "a long text": {"type": "string", "minLength": 40},
    "a short text": {"type": "string", "maxLength": 3},
    "a date": {"type": "string", "format": "date"},
    "an address": {"type": "string", "format": "uri"},
    "one of several": {"enum": ["b", "a"]},
    "a constant": {"const": 7},
    "a number in bounds": {"type": "number", "minimum": 0, "maximum": 0.5},
    "a number beyond a bound": {"type": "number", "exclusiveMinimum": 3, "maximum": 3.5},
    "a number below a bound": {"type": "number", "exclusiveMaximum": 0},
    "a whole number": {"type": "integer", "exclusiveMinimum": 3},
    "a multiple": {"type": "integer", "minimum": 11, "multipleOf": 5},
    "yes or no": {"type": "boolean"},
    "nothing": {"type": "null"},
    "text or nothing": {"type": ["null", "string"]},
    "a list": {"type": "array", "items": TEXT},
    "a list of two": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    "an object": {"type": "object", "properties": {"a": TEXT, "b": {"type": "integer"}}, "required": ["b"]},
    "an object in one": {"type": "object", "properties": {"in": NODE}, "required": ["in"]},
    "no type": {"properties": {"a": TEXT}, "required": ["a"]},
    "a reference": {
        "type": "object",
        "properties": {"in": {"$ref": "#/$defs/Inner"}},
        "required": ["in"],
        "$defs": {"Inner": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    },
    "alternatives": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "all of several": {"allOf": [{"required": ["a"]}, {"type": "object", "properties": {"a": TEXT}}]},
    "one that holds itself": {**NODE, "required": ["name"]},
    "anything": {},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_fits(name):
    made = value(SCHEMAS[name], "the words")
    jsonschema_rs.validator_for(SCHEMAS[name], validate_formats=True).validate(made)


def test_words_are_taken_where_nothing_would_do_too():
    assert value({"type": ["null", "string"]}, "w") == "w"


def test_a_schema_that_requires_itself_for_ever_ends():
    endless = {**NODE, "required": ["name", "next"]}
    assert value(endless, "w")["next"]["next"]["name"] == "w"


@pytest.mark.parametrize(
    ("parameters", "made"),
    [
        ({}, {}),
        ({"type": "object", "properties": {"q": TEXT}}, {"q": "w"}),
        ({"type": "object", "properties": {"q": TEXT, "n": {"type": "integer"}}, "required": ["n"]}, {"n": 1, "q": "w"}),
        ({"type": "object", "properties": {"q": TEXT, "r": TEXT}, "required": ["r"]}, {"r": "w"}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": []}, {}),
        ({"type": "object", "properties": {"to": {"enum": ["x", "y"]}}, "required": ["to"]}, {"to": "x"}),
    ],
)  # fmt: skip
def test_arguments_are_what_is_required_and_somewhere_the_words(parameters, made):
    assert arguments(parameters, "w") == made
