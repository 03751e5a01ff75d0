"""The ASGI application: Django for HTTP, Channels for sockets."""

import os
import warnings

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application

from console.launch.loading import loading

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Static files are small and read whole; there is nothing to be gained by streaming them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")


def _application() -> ProtocolTypeRouter:
    http = get_asgi_application()  # First: it loads the apps that the imports below need.
    from django.conf import settings

    from console.api.waiting import LongPoll
    from console.body_limit import BodyLimit
    from console.routing import websocket_urlpatterns

    return ProtocolTypeRouter(
        {
            "http": BodyLimit(LongPoll(http)),
            # Who it is the consumer asks itself, and goes on asking.
            # Exact origins, scheme and port included: a page of another program on this machine is another origin.
            "websocket": OriginValidator(CookieMiddleware(URLRouter(websocket_urlpatterns)), settings.FABRIC_ORIGINS),
        }
    )


with loading():
    application = _application()
