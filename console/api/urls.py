"""Addresses of the API. ``console.site.access.policies.ROUTES`` and ``callers.SCOPES`` name the rights of each."""

from __future__ import annotations

from django.urls import URLPattern, path

from console.api import docs
from console.api.assembly import api

# The framework's own root only says where its documentation would be.
_operations = [found for found in api.urls[0] if isinstance(found, URLPattern) and found.name != "api-root"]

urlpatterns = [
    path("v1/docs", docs.page, name="api-docs"),
    path("v1/openapi.json", docs.openapi, name="api-openapi"),
    path("v1/", (_operations, None, None)),
    path("<path:rest>", docs.unknown, name="api-unknown"),
]
