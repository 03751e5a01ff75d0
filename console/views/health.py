"""Whether this process can serve: for load balancers, supervisors and `up` itself."""

from http import HTTPStatus

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fabric.selectors.audit_forward import forwarding_ok, receivers


@never_cache
@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers, else 503 with the part that does not. Says nothing a stranger could use."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        forwards = {"audit_forwarding": "ok" if forwarding_ok() else "failing"} if receivers() else {}
    except DatabaseError:
        return JsonResponse({"status": "unavailable", "database": "unreachable"}, status=HTTPStatus.SERVICE_UNAVAILABLE)
    # A receiver that fails takes no web server out of service: its records wait.
    return JsonResponse({"status": "ok", "database": "ok", **forwards})
