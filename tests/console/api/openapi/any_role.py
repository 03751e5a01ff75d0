"""Made-up requests to every operation of the API as every kind of caller (schemathesis): no failure, no undocumented status, no shape that is not promised.

A long run, by hand: ``python -m tests.console.api.openapi.any_role --roles all --seed 1 --requests 6``. ``test_any_request.py`` asks the same of one token
that may do everything, in every third run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fabric.core.people.eligibility import KINDS_OF_PROGRAMS, PROGRAM
from fabric.core.people.roles import Role
from fabric.core.people.scopes import Scope

WANTED = "FABRIC_ANY_ROLE"
"""Variable: what the command was given, as JSON."""
PEOPLE: Mapping[str, tuple[str, ...]] = {role.value: (role.value,) for role in Role}
"""Members with one role, each with a token that may do all that they may."""
SERVICES: Mapping[str, Scope] = {f"service-{scope.value}": scope for scope in Scope}
"""Service accounts, each with a token of one scope."""
SERVICE_ROLES = ("auditor", "editor", "operator", *(f"{PROGRAM}:doubtful:{kind}" for kind in KINDS_OF_PROGRAMS))
CALLERS = (*PEOPLE, *SERVICES)
CASES = Path(__file__).with_name("role_cases.py")


def asked() -> dict[str, Any]:
    """Return what the command was given."""
    found: dict[str, Any] = json.loads(os.environ.get(WANTED, "{}"))
    return {"roles": list(CALLERS), "seed": 1, "requests": 6, "out": ""} | found


def main(words: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.api.openapi.any_role", description=__doc__)
    parser.add_argument("--roles", default="all", help=f"all, or some of {','.join(CALLERS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=6, help="to each operation, by each caller")
    parser.add_argument("--out", default="", help="a file that gets one line of JSON for each caller")
    wanted = vars(parser.parse_args(words))
    wanted["roles"] = list(CALLERS) if wanted["roles"] == "all" else wanted["roles"].split(",")
    if unknown := sorted(set(wanted["roles"]) - set(CALLERS)):
        parser.error(f"{unknown[0]} is no caller: there are {', '.join(CALLERS)}")
    os.environ[WANTED] = json.dumps(wanted)
    return int(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "-s", str(CASES)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
