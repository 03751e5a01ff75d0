"""docs/reference/operations.md is made of the schema of the HTTP API: each operation with its scope and its summary."""

from __future__ import annotations

from console.api.openapi import find_scope, operations, schema
from tests.documents.written import REFERENCE, cell, hold

HEAD = """# Operations of the HTTP API

Each operation stands below `/api/v1`. [The HTTP API](api.md) is the way through them. The page `/api/v1/docs` of an
installation has each with its fields and examples.

This page is made from the schema of the API by `tests/documents/test_operations_page.py`.

| operation | scope | |
|---|---|---|
"""


def page() -> str:
    rows = [
        f"| `{method.upper()} {path.removeprefix('/api/v1')}` | {find_scope(one['operationId'])} | {cell(one['summary'])} |"
        for path, method, one in operations(schema())
    ]
    return HEAD + "\n".join(sorted(rows)) + "\n"


def test_the_page_says_what_the_schema_says() -> None:
    hold(REFERENCE / "operations.md", page())
