"""Addresses of the sockets. Who may connect: ``console.route_policies.SOCKETS``."""

from django.urls import URLPattern, path

from console.live.consumer import RunConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("live/runs/<uuid:run_id>", RunConsumer.as_asgi(), name="live-run"),
]
