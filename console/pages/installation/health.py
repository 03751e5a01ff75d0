"""Serves liveness and readiness to load balancers, orchestrators and `up`. Answers reveal nothing useful to
strangers.
"""

from http import HTTPStatus

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console.installation.database_version import find_other_version
from fabric.selectors.audit.forwarding import is_forwarding_healthy, receivers

_seen = {"migrated": False}
"""True once the tables were of this version. They stay so while this process lives, so the check stops then."""


@never_cache
@require_safe
def livez(_request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as this process answers. It checks no service: restarting the process starts no database."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 if the database answers, else 503, naming the failing part."""
    if not _database_answers():
        return _unavailable(database="unreachable")
    # A receiver that fails takes no web server out of service: its records wait.
    forwards = {"audit_forwarding": "ok" if is_forwarding_healthy() else "failing"} if receivers() else {}
    return JsonResponse({"status": "ok", "database": "ok", **forwards})


@never_cache
@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 if requests can be sent here: the database answers, and its tables are of this version.

    Else 503, naming the part. The broker is not checked: without it runs continue a little later
    (docs/specification/durability.md), and no process here could serve better than this one.
    """
    if not _database_answers():
        return _unavailable(database="unreachable")
    if not _tables_migrated():
        return _unavailable(database="ok", migrations="waiting")
    return JsonResponse({"status": "ok", "database": "ok", "migrations": "ok"})


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _tables_migrated() -> bool:
    if not _seen["migrated"]:
        executor = MigrationExecutor(connection)
        _seen["migrated"] = not find_other_version() and not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _seen["migrated"]


def _unavailable(**parts: str) -> JsonResponse:
    return JsonResponse({"status": "unavailable", **parts}, status=HTTPStatus.SERVICE_UNAVAILABLE)
