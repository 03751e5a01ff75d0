"""The schema and its page: complete, and fit for the strict policy."""

from __future__ import annotations

import json
import re

import jsonschema_rs
import pytest

from console.api.openapi import example, operations, schema
from console.api.shapes.common import RequestShape, ResponseShape
from console.site.errors.problems import KINDS
from tests.console.api.client import fits

OPERATIONS = [pytest.param(*one, id=one[2]["operationId"]) for one in operations(schema())]


def shapes(node, path=""):
    """Every property in the document's components, with where it stands. docs/reference/events.md explains facts."""
    for name, shape in node["components"]["schemas"].items():
        if name.startswith("Fact"):
            continue
        for field, one in shape.get("properties", {}).items():
            yield f"{name}.{field}", one


def test_it_is_valid_json_schema_throughout():
    for name, shape in schema()["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid({**shape, "$schema": "https://json-schema.org/draft/2020-12/schema"}), name


def test_every_property_says_what_it_means():
    assert [where for where, one in shapes(schema()) if not one.get("description", "").strip()] == []


def test_every_reference_leads_somewhere():
    text = json.dumps(schema())
    assert set(re.findall(r'#/components/schemas/(\w+)"', text)) <= set(schema()["components"]["schemas"])


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
class TestEachOperation:
    def test_says_what_it_does(self, path, method, operation):
        assert operation["summary"]
        assert operation["description"].endswith(".")
        assert all(parameter["description"].strip() for parameter in operation["parameters"])

    def test_names_every_status(self, path, method, operation):
        statuses = {int(status) for status in operation["responses"]}
        assert statuses >= {400, 401, 403, 413, 422, 500, 503}
        assert ("{" in path) <= (404 in statuses)
        assert ("requestBody" in operation) == (415 in statuses)
        assert statuses - {200, 201, 202} <= set(KINDS)
        assert all(
            told["description"] and "X-Request-Id" in told["headers"] for told in operation["responses"].values()
        )

    def test_its_examples_fit(self, path, method, operation):
        contents = [operation.get("requestBody", {"content": {}})["content"]]
        contents += [told["content"] for told in operation["responses"].values()]
        for content in contents:
            for told in content.values():
                assert fits(told["schema"], told["example"]) == []
        for parameter in operation["parameters"]:
            assert fits(parameter["schema"], parameter["example"]) == []


def test_a_generator_needs_no_token(client):
    answer = client.get("/api/v1/openapi.json", HTTP_HOST="127.0.0.1")
    assert answer.json() == json.loads(json.dumps(schema()))
    assert client.post("/api/v1/openapi.json", HTTP_HOST="127.0.0.1").status_code == 405


class TestPage:
    @pytest.fixture
    def page(self, browser):
        answer = browser.get("/api/v1/docs")
        assert answer.status_code == 200
        return answer.content.decode()

    def test_it_shows_every_operation(self, page):
        for path, _method, operation in operations(schema()):
            assert f'id="{operation["operationId"]}"' in page
            assert path in page

    def test_every_kind_of_problem_has_its_place(self, page):
        assert [kind.slug for kind in KINDS.values() if f'id="problem-{kind.slug}"' not in page] == []

    def test_every_link_on_it_leads_to_something(self, page):
        assert set(re.findall(r'href="#([\w-]+)"', page)) <= set(re.findall(r'id="([\w-]+)"', page))

    def test_it_needs_nothing_from_elsewhere_and_nothing_inline(self, page):
        assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []
        assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []

    def test_it_is_for_people(self, db):
        from django.test import Client

        assert Client(HTTP_HOST="127.0.0.1").get("/api/v1/docs").status_code == 302


def test_an_example_of_each_kind():
    shape = {
        "properties": {
            "a": {"type": "string", "examples": ["x"]},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "c": {"type": "array", "items": {"enum": ["red", "blue"]}},
            "d": {"const": 7},
            "e": {"type": "boolean", "default": True},
        }
    }
    assert example(schema(), shape) == {"a": "x", "b": 0, "c": ["red"], "d": 7, "e": True}


def _kinds(of: type) -> set[type]:
    found: set[type] = set(of.__subclasses__())
    return found.union(*map(_kinds, found))


def test_no_two_shapes_have_one_name():
    """One of them would be described as the other."""
    names = [one.__name__ for base in (RequestShape, ResponseShape) for one in _kinds(base)]
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))
