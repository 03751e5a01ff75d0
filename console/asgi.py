"""The ASGI application: Django for HTTP, Channels for sockets."""

import os
import warnings
from typing import Any
from urllib.parse import urlsplit

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator, WebsocketDenier
from django.core.asgi import get_asgi_application

from console.launch.processes.loading import disable_collector

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Static files are small and read whole; there is nothing to be gained by streaming them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")


class ExactOrigins(OriginValidator):
    """Channels' check of origins, without its fault: it fails on an invalid origin instead of refusing it.

    A program that shows a token and names no origin is let through: no browser opens a socket in that way.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Serve one socket, or refuse it."""
        origins = [value.decode("latin1") for name, value in scope.get("headers", []) if name == b"origin"]
        if not origins and any(name == b"authorization" for name, _ in scope.get("headers", [])):
            return await self.application(scope, receive, send)
        if all(map(_is_address, origins)):
            return await super().__call__(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def _is_address(origin: str) -> bool:
    try:
        _ = urlsplit(origin).port
    except ValueError:
        return False
    return True


def _application() -> ProtocolTypeRouter:
    http = get_asgi_application()  # First: it loads the apps that the imports below need.
    from django.conf import settings

    from console.api.runs.streaming import EventStreams
    from console.api.runs.waiting import LongPoll
    from console.live.consumer import websocket_urlpatterns
    from console.site.access.senders import is_known
    from console.site.requests.body_limit import BodyLimit

    return ProtocolTypeRouter(
        {
            "http": BodyLimit(LongPoll(EventStreams(http)), who=is_known),
            # The consumer itself asks for the user, and goes on asking.
            # Exact origins, scheme and port included: a page of another program on this machine is another origin.
            "websocket": ExactOrigins(URLRouter(websocket_urlpatterns), settings.FABRIC_ORIGINS),
        }
    )


with disable_collector():
    application = _application()
