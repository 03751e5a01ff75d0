"""Whether this process lives, and whether it can serve: for load balancers, orchestrators and `up` itself. Each answer says nothing a stranger could use."""

from http import HTTPStatus

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console.database_version import find_other_version
from fabric.selectors.audit_forward import forwarding_ok, receivers

_seen = {"migrated": False}
"""Tables that were of this version stay so while this process lives: that is asked until it is so, and not again."""


@never_cache
@require_safe
def livez(_request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as this process answers at all. It asks nobody: no restart of this process starts a database."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers, else 503 with the part that does not."""
    if not _database_answers():
        return _unavailable(database="unreachable")
    # A receiver that fails takes no web server out of service: its records wait.
    forwards = {"audit_forwarding": "ok" if forwarding_ok() else "failing"} if receivers() else {}
    return JsonResponse({"status": "ok", "database": "ok", **forwards})


@never_cache
@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 when requests can be sent here: the database answers, and its tables are those of this version; else 503 with the part.

    The broker is not asked: without it runs go on a little later (docs/design.md 5), and no process here could serve better than this one.
    """
    if not _database_answers():
        return _unavailable(database="unreachable")
    if not _migrated():
        return _unavailable(database="ok", migrations="waiting")
    return JsonResponse({"status": "ok", "database": "ok", "migrations": "ok"})


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _migrated() -> bool:
    if not _seen["migrated"]:
        executor = MigrationExecutor(connection)
        _seen["migrated"] = not find_other_version() and not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _seen["migrated"]


def _unavailable(**parts: str) -> JsonResponse:
    return JsonResponse({"status": "unavailable", **parts}, status=HTTPStatus.SERVICE_UNAVAILABLE)
