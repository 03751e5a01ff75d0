"""A program sends anything: no failure, no status that the schema does not name, no shape that it does not promise (schemathesis)."""

from __future__ import annotations

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode, checks

from console.api.openapi import schema as document
from fabric.models import Incarnation, Review
from fabric.services.people.invitations import invitation_create
from simulator.drills.library.services import scenario_save
from tests.console.bad_input import drilled, model_of
from tests.fabric.services.notifications.scenes import notification_row
from tests.fabric.services.world import change_waits, ran
from tests.simulator.drills.management.sources import plain

REQUESTS = 20
"""Made up for an operation, beside those that the schema's bounds and examples give."""

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
    checks.ignored_auth,
]


def read():
    """The operations, to be asked in this process."""
    found = schemathesis.openapi.from_dict(document())
    found.app = WSGIHandler()
    refused = found.config.checks.negative_data_rejection
    # What is made up to be too long may be larger than any body.
    refused.expected_statuses = [*refused.expected_statuses, "413"]
    return found


schema = read()
taken = read()
for _one in (taken.config, taken.config.phases.coverage, taken.config.phases.fuzzing):
    _one.generation.modes = [GenerationMode.POSITIVE]
"""Only what they take: what an operation does not take it refuses before it looks for what the ids name, and is tried with made-up ones."""


@pytest.fixture
def known(actor, doubtful):
    """Ids that there are, so that more than 404 is met: of a run that waits with a review."""
    run = ran(actor, doubtful)
    Incarnation.objects.create(name="w", started_at=0, lease_until=2**53)  # A live drill needs one that works.
    return {"run_id": run.id, "name": doubtful, "review_id": Review.objects.get().id} | {
        "notification_id": notification_row(actor, run.id),
        "invitation_id": invitation_create(actor=actor, roles=["viewer"]).id,
        "model_id": model_of(actor.workspace_id),
        "change_id": change_waits(actor, doubtful),
        "scenario_name": scenario_save(actor=actor, source=plain("doubtful")).name,
        **drilled(actor, doubtful),
    }


@schema.parametrize()
@settings(
    max_examples=REQUESTS, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
def test_with_made_up_ids(case, token):
    hold(case, token, CHECKS)


def hold(case, token, held_to):
    """One request, held to the schema."""
    case.call_and_validate(base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {token}"}, checks=held_to)


@taken.parametrize()
@settings(
    max_examples=REQUESTS // 3, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
def test_with_ids_that_there_are(case, token, known):
    case.path_parameters = {name: known[name] for name in case.path_parameters}
    hold(case, token, [check for check in CHECKS if check is not checks.negative_data_rejection])
