"""Django's settings, from the environment variables of console/launch/variables/table.py.

docs/reference/settings.md lists every variable. Without any variable: SQLite, Celery's filesystem broker and an
in-memory channel layer, all of it in one directory.
"""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from console.launch.processes import data_directory as datadir
from console.launch.variables import addresses
from console.launch.variables.table import read
from console.site import log_output as known
from console.site.log_output import QUIET

# In a checkout the tests lie beside the product. A process that runs with these settings, and is no test's, can import
# nothing of them.
sys.modules.setdefault("tests", None)  # type: ignore[arg-type]

# --- Where things are ---------------------------------------------------------------------------------------------

BASE_DIR = datadir.ROOT
FABRIC_COMMAND = datadir.command_line()
FABRIC_DATA = datadir.prepare(datadir.data_dir())
FABRIC_PORT: int = read("FABRIC_PORT") or datadir.find_port(FABRIC_DATA) or datadir.PORT
FABRIC_PUBLIC_URL: str = read("FABRIC_PUBLIC_URL") or f"http://{datadir.HOST}:{FABRIC_PORT}"


def data_dir() -> Path:
    """Return the data directory: the database, the broker's files, attachments and the secret key live in it."""
    return FABRIC_DATA


# --- Models and tools ---------------------------------------------------------------------------------------------

FABRIC_MODEL_URL: str = read("FABRIC_MODEL_URL") or ""
FABRIC_MODEL: str = read("FABRIC_MODEL") or ""
FABRIC_MODEL_KEY: str = read("FABRIC_MODEL_KEY") or ""
FABRIC_ANTHROPIC_URL: str = read("FABRIC_ANTHROPIC_URL") or "https://api.anthropic.com"
FABRIC_ANTHROPIC_KEY: str = read("FABRIC_ANTHROPIC_KEY") or ""
FABRIC_GOOGLE_URL: str = read("FABRIC_GOOGLE_URL") or "https://generativelanguage.googleapis.com"
FABRIC_GOOGLE_KEY: str = read("FABRIC_GOOGLE_KEY") or ""
FABRIC_AZURE_URL: str = read("FABRIC_AZURE_URL") or ""
FABRIC_AZURE_KEY: str = read("FABRIC_AZURE_KEY") or ""
FABRIC_BEDROCK_URL: str = read("FABRIC_BEDROCK_URL") or ""
FABRIC_BEDROCK_KEY: str = read("FABRIC_BEDROCK_KEY") or ""
FABRIC_VERTEX_URL: str = read("FABRIC_VERTEX_URL") or "https://aiplatform.googleapis.com"
FABRIC_VERTEX_KEY: str = read("FABRIC_VERTEX_KEY") or ""
FABRIC_PROVIDERS: dict[str, str] = read("FABRIC_PROVIDERS") or {}
FABRIC_TOOLS: dict[str, str] = read("FABRIC_TOOLS") or {}
FABRIC_GRAPH_RULES: tuple[str, ...] = read("FABRIC_GRAPH_RULES") or ()
FABRIC_FAULTS: str = read("FABRIC_FAULTS") or ""
FABRIC_ALLOWED_HOSTS: tuple[str, ...] = read("FABRIC_ALLOWED_HOSTS") or ()
FABRIC_MCP_COMMANDS: tuple[tuple[str, ...], ...] = read("FABRIC_MCP_COMMANDS") or ()
FABRIC_EXTRA_BODY: tuple[str, ...] = read("FABRIC_EXTRA_BODY") or ()
FABRIC_BELOW_LIST_PRICE: tuple[str, ...] = read("FABRIC_BELOW_LIST_PRICE") or ()
FABRIC_KEY_CAPS: tuple[tuple[str, str, int], ...] = read("FABRIC_KEY_CAPS") or ()
FABRIC_TOOL_VARIABLES: tuple[str, ...] = read("FABRIC_TOOL_VARIABLES") or ()

# Key ring of stored secrets; empty: the key ring in the data directory.
FABRIC_KEY_RING: str = read("FABRIC_KEY_RING") or ""

# Key that signs checkpoints, and the folder where they are written beside the database.
FABRIC_AUDIT_KEY: str = read("FABRIC_AUDIT_KEY") or ""
FABRIC_CHECKPOINTS: Path | None = read("FABRIC_CHECKPOINTS")
# Where the audit stream is sent as well.
FABRIC_AUDIT_SYSLOG: str = read("FABRIC_AUDIT_SYSLOG") or ""
FABRIC_AUDIT_OTLP: str = read("FABRIC_AUDIT_OTLP") or ""
FABRIC_AUDIT_OTLP_KEY: str = read("FABRIC_AUDIT_OTLP_KEY") or ""

# Receivers of alerts and reviews outside the console, and how.
FABRIC_NOTIFY_MAIL: tuple[str, ...] = read("FABRIC_NOTIFY_MAIL") or ()
FABRIC_NOTIFY_WEBHOOKS: tuple[str, ...] = read("FABRIC_NOTIFY_WEBHOOKS") or ()
FABRIC_NOTIFY_SLACK: tuple[str, ...] = read("FABRIC_NOTIFY_SLACK") or ()
FABRIC_NOTIFY_TEAMS: tuple[str, ...] = read("FABRIC_NOTIFY_TEAMS") or ()
FABRIC_NOTIFY_RUN_ENDS: tuple[str, ...] = read("FABRIC_NOTIFY_RUN_ENDS") or ()
FABRIC_WEBHOOK_SECRET: str = read("FABRIC_WEBHOOK_SECRET") or ""
DEFAULT_FROM_EMAIL: str = read("FABRIC_MAIL_FROM") or ""
_smtp_tls: str = read("FABRIC_SMTP_TLS") or "starttls"
EMAIL_HOST: str = read("FABRIC_SMTP_HOST") or ""
EMAIL_PORT: int = read("FABRIC_SMTP_PORT") or {"starttls": 587, "tls": 465, "off": 25}[_smtp_tls]
EMAIL_HOST_USER: str = read("FABRIC_SMTP_USER") or ""
EMAIL_HOST_PASSWORD: str = read("FABRIC_SMTP_PASSWORD") or ""
EMAIL_USE_TLS, EMAIL_USE_SSL = _smtp_tls == "starttls", _smtp_tls == "tls"
EMAIL_TIMEOUT = 10  # Seconds, for each answer of the mail server.

FABRIC_TRUSTED_PROXIES: tuple[str, ...] = read("FABRIC_TRUSTED_PROXIES") or ()
# Limits on a caller's requests; unless the operator sets them, those of console/site/requests/throttle.py and
# sign_in_tries.
globals().update(
    {
        name: most
        for name in ("FABRIC_API_PER_MINUTE", "FABRIC_SIGN_IN_TRIES", "FABRIC_MODEL_TESTS_PER_MINUTE")
        if (most := read(name)) is not None
    }
)

# Ways to sign in beside a name and a password: docs/how-to/set-up-sign-in.md.
FABRIC_OIDC_ISSUER: str = read("FABRIC_OIDC_ISSUER") or ""
FABRIC_OIDC_CLIENT_ID: str = read("FABRIC_OIDC_CLIENT_ID") or ""
FABRIC_OIDC_CLIENT_SECRET: str = read("FABRIC_OIDC_CLIENT_SECRET") or ""
FABRIC_OIDC_ROLES: tuple[tuple[str, str], ...] = read("FABRIC_OIDC_ROLES") or ()
FABRIC_OIDC_DOMAINS: tuple[str, ...] = read("FABRIC_OIDC_DOMAINS") or ()
FABRIC_OIDC_GROUPS_CLAIM: str = read("FABRIC_OIDC_GROUPS_CLAIM") or "groups"
FABRIC_OIDC_NAME: str = read("FABRIC_OIDC_NAME") or ""
FABRIC_SECOND_FACTOR: str = read("FABRIC_SECOND_FACTOR") or "offered"
FABRIC_SIGN_IN_IDLE_HOURS: int = read("FABRIC_SIGN_IN_IDLE_HOURS") or 8
FABRIC_SIGN_IN_HOURS: int = read("FABRIC_SIGN_IN_HOURS") or 24

# --- Stores -------------------------------------------------------------------------------------------------------

DATABASES = {"default": addresses.database(read("DATABASE_URL"), FABRIC_DATA)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CHANNEL_LAYERS = {"default": addresses.channel_layer(read("CHANNEL_URL"))}

globals().update(addresses.broker(read("CELERY_BROKER_URL"), FABRIC_DATA))
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_CONNECTION_TIMEOUT = addresses.CONNECT_TIMEOUT_S
# A message is only a wake-up: it is acknowledged at once, never redelivered, and has no result.
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_RESULT_BACKEND = None
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 5.0
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

# --- Django -------------------------------------------------------------------------------------------------------

SECRET_KEY = read("FABRIC_SECRET_KEY") or datadir.secret_key(FABRIC_DATA)
DEBUG: bool = read("FABRIC_DEBUG") or False
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "fabric",
    "simulator.drills",
    "console",
]

MIDDLEWARE = [
    "console.site.requests.packing.PackingMiddleware",
    "console.api.middleware.ApiMiddleware",
    "console.site.access.audit_trail.AuditDoorMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "console.site.requests.headers.SafeHeadersMiddleware",
    "console.site.requests.plain_http.PlainHttpMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "console.site.access.sessions.SignedInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.site.access.actors.AccessMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [datadir.SITE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.pages.shell.frame.shell",
            ],
        },
    },
]

STATIC_URL = "/static/"
STATICFILES_DIRS = [datadir.SITE / "static"]
WHITENOISE_USE_FINDERS = True  # Serves from the checkout: there is no collectstatic step to forget.
WHITENOISE_AUTOREFRESH = DEBUG

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

# --- Who may come in ----------------------------------------------------------------------------------------------

_public = urlsplit(FABRIC_PUBLIC_URL)
_https = _public.scheme == "https"
_loopback = [datadir.HOST, "localhost", "[::1]"]

ALLOWED_HOSTS = [*_loopback, *([_public.hostname] if _public.hostname else [])]
FABRIC_ORIGINS = sorted(
    {f"{_public.scheme}://{_public.netloc}", *(f"http://{host}:{FABRIC_PORT}" for host in _loopback)}
)
CSRF_FAILURE_VIEW = "console.site.errors.pages.csrf_failure"
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"fabric.services.people.sign_in.password_rules.{name}"}
    for name in ("LengthValidator", "ContextValidator", "GuessedValidator")
]
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"

# Signed cookies: a request writes nothing, which SQLite's one writer is glad of.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
SESSION_COOKIE_AGE = (
    FABRIC_SIGN_IN_HOURS * 3600
)  # Seconds; what ends a sign-in is its row (fabric/services/people/sign_in/sessions.py).
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
# Browsers share cookies between the ports of a host, so a second installation on it needs names of its own.
SESSION_COOKIE_NAME = "__Host-fabric-session" if _https else f"fabric-session-{FABRIC_PORT}"
CSRF_COOKIE_NAME = "__Host-fabric-csrf" if _https else f"fabric-csrf-{FABRIC_PORT}"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _https  # Of a host that is Fabric Flow's alone.
# W021: whether a domain goes onto the browsers' own lists is for its owner to say. W008: who comes past the proxy is
# for PlainHttpMiddleware.
SILENCED_SYSTEM_CHECKS = ["security.W021", "security.W008"]
# Only a proxy that ends TLS can have given us an https public address, and it must overwrite this header.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
X_FRAME_OPTIONS = "DENY"

# The largest form: a request of 64 KB and attachments of 30 MB together, which are files and not counted here.
DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

known.learn_secrets(
    {"SECRET_KEY": SECRET_KEY},
    {name: os.environ.get(name, "") for name, _, _ in (one.partition("@") for one in FABRIC_TOOL_VARIABLES)},
)
known.quiet_log()

# --- What is said -------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {"()": "console.site.log_output.JsonLines"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": read("FABRIC_LOG_FORMAT") or "text"}},
    "root": {"handlers": ["stderr"], "level": read("FABRIC_LOG_LEVEL") or "WARNING"},
    # Django's own handlers would say everything twice.
    "loggers": {
        **{name: {"handlers": [], "propagate": True} for name in ("django", "django.server")},
        # They say addresses of webhooks and models at INFO, with what stands in their queries.
        **{name: {"level": "WARNING"} for name in QUIET},
        # The visitor is told of their own mistake.
        "django.request": {"level": "ERROR"},
    },
}
