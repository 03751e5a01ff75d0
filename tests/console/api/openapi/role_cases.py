"""``any_role.py`` runs this file: one test for each caller, which asks every operation. It is no part of the suite: it has no test's name."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from fabric.core.people.scopes import Scope
from fabric.models import ApiToken, Member
from tests.console.api.openapi.any_role import PEOPLE, SERVICE_ROLES, SERVICES, asked
from tests.console.api.openapi.test_any_request import known, read
from tests.people import member, token_of

__all__ = ["known"]

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@dataclass
class Caller:
    """One member with a token; made anew where its own requests took it away."""

    name: str
    made: int = 0
    token: str = ""

    def __post_init__(self) -> None:
        self._make()

    def _make(self) -> None:
        self.made += 1
        name, service = f"{self.name}-{self.made}", SERVICES.get(self.name)
        user: User = member(name, *PEOPLE.get(self.name, SERVICE_ROLES), service=service is not None)
        self.token = token_of(user, name, tuple(Scope) if service is None else (service,))

    def still(self) -> None:
        """Makes it anew where the token or its member is gone."""
        live = ApiToken.objects.filter(name=f"{self.name}-{self.made}", revoked_at__isnull=True)
        there = Member.objects.filter(name=f"{self.name}-{self.made}", removed_at__isnull=True)
        if not live.exists() or set(there.values_list("roles", flat=True)) != {self._roles()}:
            self._make()

    def _roles(self) -> str:
        return ",".join(sorted(PEOPLE.get(self.name, SERVICE_ROLES)))


@dataclass
class Tally:
    """The answer that came."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    operations: int = 0


def operations() -> Iterator[Any]:
    found = read()
    for result in found.get_all_operations():
        yield result.ok()


@pytest.mark.parametrize("name", asked()["roles"])
def test_whatever_is_sent(name, actor, known, settings):
    settings.FABRIC_API_PER_MINUTE = 10**9
    wanted, tally, caller = asked(), Tally(), Caller(name)
    began = time.monotonic()
    every = list(operations())
    random.Random(wanted["seed"]).shuffle(every)
    for operation in every:
        caller.still()
        _hold(operation, caller, known, tally, wanted)
        tally.operations += 1
    _told(name, tally, time.monotonic() - began, wanted)
    assert tally.wrong == []


def _hold(operation: Any, caller: Caller, known: Mapping[str, str], tally: Tally, wanted: Mapping[str, Any]) -> None:
    """So many requests to one operation, half of them with ids that there are."""
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in MODES))

    @seed(wanted["seed"])
    @settings(
        max_examples=wanted["requests"],
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(cases, st.booleans())
    def one(case: Any, there: bool) -> None:
        if there:
            case.path_parameters = {key: known.get(key, value) for key, value in (case.path_parameters or {}).items()}
        answer = case.call(base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {caller.token}"})
        tally.statuses[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    try:
        one()
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - Whatever came of it is told with the others.
        tally.wrong.append(f"{operation.label}: {_sentence(error)}")


def _sentence(error: BaseException) -> str:
    told = [str(one) for one in getattr(error, "exceptions", ())] or [str(error)]
    return f"{type(error).__name__}: " + " | ".join(" ".join(one.split())[:900] for one in told)


def _told(name: str, tally: Tally, took: float, wanted: Mapping[str, Any]) -> None:
    row = {"caller": name, "requests": tally.statuses.total(), "operations": tally.operations}
    row |= {"server_errors": sum(n for status, n in tally.statuses.items() if status >= 500)}
    row |= {"statuses": dict(sorted(tally.statuses.items())), "wrong": tally.wrong, "took_s": round(took, 1)}
    print(json.dumps(row))
    if wanted["out"]:
        with Path(wanted["out"]).open("a") as file:
            file.write(json.dumps(row) + "\n")
