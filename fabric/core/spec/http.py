"""Declares the fields of ``ToolSpec`` for HTTP: where arguments travel, and which headers the worker's environment
supplies.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"
VariableName = Annotated[str, StringConstraints(pattern=VARIABLE)]
"""The name of an environment variable."""
HeaderName = Annotated[str, StringConstraints(pattern=HEADER)]
"""The name of an HTTP header (RFC 9110 5.6.2 "token")."""
Place = Literal["path", "query", "header", "body"]
PLACEHOLDER = re.compile(r"\{([^{}/]{1,100})\}")
"""Where an argument stands in the path of a target: ``{name}``."""


Places = Annotated[
    dict[Annotated[str, StringConstraints(min_length=1, max_length=100)], Place],
    Field(
        description="http: where arguments travel, by name. path: at {NAME} in the target; query; header: under its own name; body: it is the whole "
        "JSON body. Others: in the JSON body of POST, PUT and PATCH, in the query of GET and DELETE.",
    ),
]
HeadersFrom = Annotated[
    dict[HeaderName, VariableName],
    Field(
        description="http: headers whose values come from the worker's environment: header to variable, such as Authorization: CRM_TOKEN. The operator "
        "allows them in FABRIC_TOOL_VARIABLES as NAME@HOST:PORT.",
    ),
]


def placeholders(target: str) -> list[str]:
    """The arguments that stand in a target's path, in its order."""
    try:
        return PLACEHOLDER.findall(urlsplit(target).path)
    except ValueError:
        return []
