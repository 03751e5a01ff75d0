"""The ASGI application: Django for HTTP, Channels for sockets."""

import os
import warnings

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
http = get_asgi_application()  # First: it loads the apps that the imports below need.

# Static files are small and read whole; there is nothing to be gained by streaming them.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

from django.conf import settings  # noqa: E402

from console.api.waiting import LongPoll  # noqa: E402
from console.body_limit import BodyLimit  # noqa: E402
from console.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": BodyLimit(LongPoll(http)),
        # Who it is the consumer asks itself, and goes on asking.
        # Exact origins, scheme and port included: a page of another program on this machine is another origin.
        "websocket": OriginValidator(CookieMiddleware(URLRouter(websocket_urlpatterns)), settings.FABRIC_ORIGINS),
    }
)
