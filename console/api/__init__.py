"""The HTTP API, ``/api/v1``: one module a noun over the same services and selectors as the pages.

A request passes ``middleware`` (its id, its body's bound, and the last word on every error), ``console.access`` (who calls, by ``callers``),
then the operation, whose body was read by ``bodies`` before pydantic saw it. Every error is a ``problems`` document.
"""
