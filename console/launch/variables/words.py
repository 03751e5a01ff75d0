"""Describes each environment variable and its default. docs/reference/settings.md is made of it.

Standard library only, like the table of variables. A test compares the names of both.
"""

from collections.abc import Mapping
from typing import NamedTuple


class VariableWords(NamedTuple):
    """The default of a variable, and its meaning in a sentence or two."""

    default: str
    means: str


WORDS: Mapping[str, VariableWords] = {
    "FABRIC_DATA": VariableWords(
        "`$XDG_DATA_HOME/fabric-flow`", "The data directory. Only its owner may read it. No network file system."
    ),
    "FABRIC_PORT": VariableWords("8420", "The port of the local address. `up` sets it from `--port`."),
    "FABRIC_PUBLIC_URL": VariableWords(
        "`http://127.0.0.1:PORT`",
        "The address that people use: scheme, host and perhaps a port. "
        "With https cookies are Secure, HSTS is sent, and the proxy sets `X-Forwarded-Proto`.",
    ),
    "FABRIC_SECRET_KEY": VariableWords(
        "made in `secret.key`", "The signing key: random, 32 characters or more, the same for all processes."
    ),
    "FABRIC_KEY_RING": VariableWords(
        "made in `key.ring`",
        "Keys that stored secrets are sealed under, 64 hexadecimal digits each, with commas between. "
        "The first seals, all open. The same for all processes.",
    ),
    "DATABASE_URL": VariableWords(
        "SQLite in the data directory",
        "`postgresql://USER:PASSWORD@HOST:PORT/NAME` or `sqlite:///PATH`. "
        "In a password `/ ? # @` are written `%2F %3F %23 %40`.",
    ),
    "CELERY_BROKER_URL": VariableWords(
        "files in the data directory", "`redis://`, `rediss://`, `amqp://` or `amqps://`."
    ),
    "CHANNEL_URL": VariableWords("the process's memory", "`redis://`; needed for more than one web server."),
    "FABRIC_MODEL_URL": VariableWords("none", "Base URL of an endpoint that speaks OpenAI's protocol."),
    "FABRIC_MODEL": VariableWords("none", "The name of the model there."),
    "FABRIC_MODEL_KEY": VariableWords(
        "none", "Its key. A key that a workspace stored for the same host goes before it."
    ),
    "FABRIC_ANTHROPIC_URL": VariableWords(
        "`https://api.anthropic.com`",
        "Where models of `provider: anthropic` are asked. A gateway's models need a `price`.",
    ),
    "FABRIC_ANTHROPIC_KEY": VariableWords("none", "Their key. It is sent to that address alone."),
    "FABRIC_GOOGLE_URL": VariableWords(
        "`https://generativelanguage.googleapis.com`",
        "Where models of `provider: google` are asked, without the version. A gateway's models need a `price`.",
    ),
    "FABRIC_GOOGLE_KEY": VariableWords("none", "Their key. It is sent to that address alone."),
    "FABRIC_AZURE_URL": VariableWords("none", "The resource of Azure OpenAI: `https://RESOURCE.openai.azure.com`."),
    "FABRIC_AZURE_KEY": VariableWords("none", "Its key. It is sent to that address alone."),
    "FABRIC_BEDROCK_URL": VariableWords("none", "A region of Bedrock: `https://bedrock-runtime.REGION.amazonaws.com`."),
    "FABRIC_BEDROCK_KEY": VariableWords("none", "Its API key. Without it the extra `bedrock` signs in."),
    "FABRIC_VERTEX_URL": VariableWords(
        "`https://aiplatform.googleapis.com`",
        "Vertex AI's address, or `https://LOCATION-aiplatform.googleapis.com`, "
        "or either with `/v1/projects/PROJECT/locations/LOCATION`.",
    ),
    "FABRIC_VERTEX_KEY": VariableWords("none", "Its API key (express mode). Without it the extra `vertex` signs in."),
    "FABRIC_PROVIDERS": VariableWords(
        "none",
        "`NAME=dotted.path.Class,...`: further providers by the name that a fabric uses. "
        "Each is made without arguments and has a coroutine `ask`. `drill` is reserved.",
    ),
    "FABRIC_TOOLS": VariableWords(
        "none", "`NAME=dotted.path.function,...`: Python functions that fabrics may call. The same for all processes."
    ),
    "FABRIC_GRAPH_RULES": VariableWords(
        "none", "`dotted.path.NAME,...`: registries of conditions and targets for graphs. The same for all processes."
    ),
    "FABRIC_ALLOWED_HOSTS": VariableWords(
        "none", "`HOST:PORT,...`: model and tool endpoints that may be private or plain http."
    ),
    "FABRIC_MCP_COMMANDS": VariableWords(
        "none",
        "`COMMAND LINE;...`: what fabrics may have run as MCP servers, compared word for word. "
        "A line that ends with `...` lets any words follow. It runs as this user.",
    ),
    "FABRIC_EXTRA_BODY": VariableWords(
        "none",
        "`FIELD,FIELD.FIELD,...`: further fields of a request that fabrics may set (`options.extra_body`). "
        "What the program writes itself is never changed.",
    ),
    "FABRIC_BELOW_LIST_PRICE": VariableWords("none", "`MODEL,...`: models whose price may be below the list's."),
    "FABRIC_KEY_CAPS": VariableWords(
        "none",
        "`ENDPOINT=DOLLARS/day,ENDPOINT=DOLLARS/month,...`: what all may spend at an endpoint in a day or a "
        "calendar month, UTC.",
    ),
    "FABRIC_TOOL_VARIABLES": VariableWords(
        "none",
        "`NAME,NAME@HOST:PORT,...`: variables that fabrics may name. "
        "Plain ones are for commands and functions, one with a host is for a header to that host.",
    ),
    "FABRIC_AUDIT_KEY": VariableWords(
        "made in `audit.key`", "The private key of checkpoints, 64 hexadecimal digits, the same for all processes."
    ),
    "FABRIC_CHECKPOINTS": VariableWords(
        "none", "A directory that gets every checkpoint as well, best on another machine's disk."
    ),
    "FABRIC_AUDIT_SYSLOG": VariableWords(
        "none", "A syslog receiver of the audit stream: `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`."
    ),
    "FABRIC_AUDIT_OTLP": VariableWords("none", "An OTLP/HTTP receiver of the audit stream, the whole address."),
    "FABRIC_AUDIT_OTLP_KEY": VariableWords("none", "Sent to it as a bearer token."),
    "FABRIC_NOTIFY_MAIL": VariableWords(
        "none", "`ADDRESS,...`: who is mailed of alerts and reviews. Needs `FABRIC_SMTP_HOST` and `FABRIC_MAIL_FROM`."
    ),
    "FABRIC_NOTIFY_WEBHOOKS": VariableWords(
        "none",
        "`URL,...`: addresses that also get notifications. A comma in one is written `%2C`. Needs `FABRIC_WEBHOOK_SECRET`.",
    ),
    "FABRIC_NOTIFY_SLACK": VariableWords(
        "none", "`URL,...`: incoming webhooks of Slack channels that get alerts and reviews."
    ),
    "FABRIC_NOTIFY_TEAMS": VariableWords(
        "none", "`URL,...`: workflow webhooks of Teams channels that get alerts and reviews."
    ),
    "FABRIC_NOTIFY_RUN_ENDS": VariableWords(
        "none",
        "`NAME,...`: fabrics of whose ended runs the webhooks hear; `*`: of all. Needs `FABRIC_NOTIFY_WEBHOOKS`.",
    ),
    "FABRIC_WEBHOOK_SECRET": VariableWords(
        "none", "The secret that signs webhooks: `whsec_` and base64 of 24 to 64 bytes."
    ),
    "FABRIC_MAIL_FROM": VariableWords("none", "The address that messages come from."),
    "FABRIC_SMTP_HOST": VariableWords("none", "The mail server. Without it no mail is sent."),
    "FABRIC_SMTP_PORT": VariableWords("587; 465 with `tls`; 25 with `off`", "Its port."),
    "FABRIC_SMTP_USER": VariableWords(
        "none", "The account there, with `FABRIC_SMTP_PASSWORD`. Without it there is no sign-in."
    ),
    "FABRIC_SMTP_PASSWORD": VariableWords("none", "The password there."),
    "FABRIC_SMTP_TLS": VariableWords("`starttls`", "`starttls`, `tls` (from the first byte) or `off`."),
    "FABRIC_API_PER_MINUTE": VariableWords(
        "6000", "Requests a minute of one token or user, for each web server. 0: no bound."
    ),
    "FABRIC_MODEL_TESTS_PER_MINUTE": VariableWords(
        "12", "Test calls of models, and prompts to drafted agents, that one person may send in a minute."
    ),
    "FABRIC_SIGN_IN_TRIES": VariableWords(
        "6",
        "Tries of one name that may fail before the next waits: 30 s, doubled each time, 15 minutes at most. "
        "An address has ten times as many.",
    ),
    "FABRIC_SIGN_IN_IDLE_HOURS": VariableWords("8", "1 to 24: so long after its last use a sign-in ends."),
    "FABRIC_SIGN_IN_HOURS": VariableWords("24", "24 to 168: so long after its beginning a sign-in ends."),
    "FABRIC_SECOND_FACTOR": VariableWords(
        "`offered`", "`required`: each person sets up a second factor before anything else."
    ),
    "FABRIC_OIDC_ISSUER": VariableWords(
        "none", "A provider of identities, as it calls itself. Plain http on this machine only."
    ),
    "FABRIC_OIDC_CLIENT_ID": VariableWords("none", "The name of this installation there."),
    "FABRIC_OIDC_CLIENT_SECRET": VariableWords(
        "none", "Its secret there. Without one it is a public client, by PKCE alone."
    ),
    "FABRIC_OIDC_ROLES": VariableWords(
        "none", "`GROUP=ROLE,...`. In place of a group: a checked mail address, or `*` with `FABRIC_OIDC_DOMAINS`."
    ),
    "FABRIC_OIDC_DOMAINS": VariableWords("all", "`example.org,...`: domains whose checked mail addresses are let in."),
    "FABRIC_OIDC_GROUPS_CLAIM": VariableWords("`groups`", "The claim that has the groups."),
    "FABRIC_OIDC_NAME": VariableWords("none", "The words of the button behind *Sign in with*."),
    "FABRIC_TRUSTED_PROXIES": VariableWords(
        "none", "`ADDRESS,NETWORK,...`: proxies whose `X-Forwarded-For` is believed."
    ),
    "FABRIC_LOG_LEVEL": VariableWords("`WARNING`", "From which level on lines are logged: `DEBUG` to `CRITICAL`."),
    "FABRIC_LOG_FORMAT": VariableWords("`text`", "`text`, or `json`: one object a line."),
    "FABRIC_DEBUG": VariableWords("off", "`1`: Django's debug pages. Never where others can reach it."),
    "DJANGO_SETTINGS_MODULE": VariableWords("`console.settings`", "Another settings module."),
    "XDG_DATA_HOME": VariableWords("`~/.local/share`", "Where the data directory is by default. Must be absolute."),
    "XDG_CACHE_HOME": VariableWords("`~/.cache`", "Where environments and caches are. Must be absolute."),
    "SSH_CONNECTION": VariableWords("", "`up` says how to forward the port where this is set."),
    "DISPLAY": VariableWords("", "`up` opens a browser where this is set."),
    "WAYLAND_DISPLAY": VariableWords("", "The same."),
    "CELERY_SKIP_CHECKS": VariableWords("set by the worker", "Celery runs Django's checks in each worker otherwise."),
    "NO_COLOR": VariableWords("", "Commands print no colours where this is set."),
    "TERM": VariableWords("", "`dumb`: the same."),
    "CI": VariableWords("", "`true` or `1`: `manage.py test` may leave nothing out."),
    "TEST_DATABASE_URL": VariableWords(
        "a server on loopback", "PostgreSQL for the tests. The user may make databases."
    ),
    "TEST_REDIS_URL": VariableWords("a server on loopback", "Redis for the tests."),
    "TEST_AMQP_URL": VariableWords("a server on loopback", "RabbitMQ for the tests."),
    "TEST_CHROMIUM": VariableWords("on the path", "The browser's program for the tests."),
}
