"""Names that a template looks up and that their object does not have: Django shows nothing in their place and says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.template.base import Variable, VariableDoesNotExist
from django.template.context import BaseContext

LACKS = (type(None), BaseContext, Mapping, str)
"""Parents that may lack a name: a missing value, a template's names, a dict, and the result of a failed lookup."""


@contextmanager
def missed_lookups(patch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Collect the lookups that fail while the block runs: the page and the template in it, the expression, and the class without the name."""
    found: set[str] = set()
    looked_up: Any = Variable
    resolve = looked_up._resolve_lookup

    def watched(variable: Variable, context: Any) -> Any:
        try:
            return resolve(variable, context)
        except VariableDoesNotExist as missing:
            name, owner = missing.params
            if not isinstance(owner, LACKS):
                rendered = (context.template, context.render_context.template)
                where = dict.fromkeys(str(one.name) for one in rendered if one)
                found.add(f"{', '.join(where)}: {variable.var}: {type(owner).__name__} has no {name!r}")
            raise

    patch.setattr(Variable, "_resolve_lookup", watched)
    yield found
