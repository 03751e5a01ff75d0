"""The table, the documents and the code agree about the variables of the environment."""

import ast
import re
import tempfile
from pathlib import Path

import pytest

from console.launch.processes.data_directory import ROOT
from console.launch.processes.errors import StartRefused
from console.launch.variables import table as variables
from console.launch.variables.table import NEEDS, SETTINGS, VARIABLES, Kind, read, refuse_unusable

PROGRAMS = ("console", "fabric", "simulator", "tests/benchmarks", "tests/chaos")
OURS = re.compile(r"(?:FABRIC|TEST|XDG|CELERY|CHANNEL|DATABASE)_[A-Z_]+")
MAY_READ = re.compile(rf"environ|getenv|\bread\(|{OURS.pattern}")
DESCRIBED_IN = ("variables.py", "variable_words.py")
"""Modules that name every variable and read none."""
# In capitals and ours, and no variable of the environment.
NAMES_OF_SETTINGS = {
    "CELERY_BROKER_TRANSPORT",
    "CELERY_BROKER_TRANSPORT_OPTIONS",
    "CELERY_WORKER_ENABLE_REMOTE_CONTROL",
}


def sources():
    yield ROOT / "manage.py"
    for folder in PROGRAMS:
        yield from sorted(path for path in (ROOT / folder).rglob("*.py") if not path.name.startswith("test_"))
    yield ROOT / "tests" / "servers" / "addresses.py"  # Which looks for servers on behalf of `manage.py test`.


def words(path):
    """The text constants of a module that stand alone: not a docstring, no part of a sentence."""
    return {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}


def read_from_the_environment(path):
    """Yield what a module asks `os.environ`, a mapping like it, or the table for, by a name that stands there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and named(node.value) == "environ":
            yield node.slice
        elif isinstance(node, ast.Call) and node.args:
            getter = node.func.attr if isinstance(node.func, ast.Attribute) else named(node.func)
            asked = named(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            if (
                getter == "getenv"
                or (getter in ("get", "setdefault", "pop") and asked == "environ")
                or getter == "read"
            ):
                yield node.args[0]


def named(node):
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_whatever_is_read_is_in_the_table():
    unknown = {}
    for path in (one for one in sources() if MAY_READ.search(one.read_text())):
        asked = {node.value for node in read_from_the_environment(path) if isinstance(node, ast.Constant)}
        ours = {word for word in words(path) if isinstance(word, str) and OURS.fullmatch(word)}
        if found := {name for name in asked | ours if isinstance(name, str)} - set(VARIABLES) - NAMES_OF_SETTINGS:
            unknown[path.name] = found
    assert unknown == {}


def test_whatever_is_in_the_table_is_read():
    everywhere = set().union(*(words(path) for path in sources() if path.name not in DESCRIBED_IN))
    assert set(VARIABLES) - everywhere == set()


def test_whatever_is_in_the_table_is_described_and_the_other_way_round():
    documents = (ROOT / "docs" / "reference" / "settings.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \|", documents, re.MULTILINE)
    described = {name for name, variable in VARIABLES.items() if variable.kind is not Kind.HARNESS}
    assert sorted(rows) == sorted(described)


GOOD = [
    ("FABRIC_PORT", "9000", 9000),
    ("FABRIC_PUBLIC_URL", "https://fabric.example.org/", "https://fabric.example.org"),
    ("FABRIC_PUBLIC_URL", "HTTPS://Fabric.Example.org:443", "https://fabric.example.org"),
    ("FABRIC_PUBLIC_URL", "http://10.0.0.7:8420", "http://10.0.0.7:8420"),
    ("FABRIC_PUBLIC_URL", "http://[2001:db8::1]:80", "http://[2001:db8::1]"),
    ("FABRIC_SECRET_KEY", "k" * 32, "k" * 32),
    ("FABRIC_KEY_RING", f"{'aB' * 32}, {'cd' * 32}\n", f"{'ab' * 32},{'cd' * 32}"),
    ("FABRIC_MODEL_URL", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
    ("FABRIC_MODEL_KEY", "sk-abc_DEF-123\n", "sk-abc_DEF-123"),  # As a file with a key ends.
    ("FABRIC_ANTHROPIC_KEY", "sk-ant-abc_DEF-123\n", "sk-ant-abc_DEF-123"),
    ("FABRIC_ANTHROPIC_URL", "https://gateway.example.org/anthropic", "https://gateway.example.org/anthropic"),
    ("FABRIC_GOOGLE_KEY", "AIzaabc_DEF-123", "AIzaabc_DEF-123"),
    ("FABRIC_GOOGLE_URL", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
    ("FABRIC_AZURE_KEY", "abc_DEF-123", "abc_DEF-123"),
    ("FABRIC_AZURE_URL", "https://example.openai.azure.com", "https://example.openai.azure.com"),
    ("FABRIC_BEDROCK_KEY", "bedrock-api-key-abc=", "bedrock-api-key-abc="),
    (
        "FABRIC_BEDROCK_URL",
        "https://bedrock-runtime.eu-west-1.amazonaws.com",
        "https://bedrock-runtime.eu-west-1.amazonaws.com",
    ),
    ("FABRIC_VERTEX_KEY", "AQ.abc_DEF-123", "AQ.abc_DEF-123"),
    (
        "FABRIC_VERTEX_URL",
        "https://europe-west1-aiplatform.googleapis.com",
        "https://europe-west1-aiplatform.googleapis.com",
    ),
    ("FABRIC_PROVIDERS", "mine=a.b.C, other=d.E,", {"mine": "a.b.C", "other": "d.E"}),
    ("FABRIC_TOOLS", "pay=a.b.pay, look_up=d.look,", {"pay": "a.b.pay", "look_up": "d.look"}),
    ("FABRIC_GRAPH_RULES", "acme.routing.RULES, acme.more.RULES,", ("acme.routing.RULES", "acme.more.RULES")),
    ("FABRIC_ALLOWED_HOSTS", "127.0.0.1:8000, models.internal:443,", ("127.0.0.1:8000", "models.internal:443")),
    ("FABRIC_ALLOWED_HOSTS", "[::1]:80", ("[::1]:80",)),
    ("FABRIC_MCP_COMMANDS", "npx -y 'a b'; /opt/crm ...;", (("npx", "-y", "a b"), ("/opt/crm", "..."))),
    ("FABRIC_EXTRA_BODY", "mirostat, options.num_ctx,", ("mirostat", "options.num_ctx")),
    ("FABRIC_BELOW_LIST_PRICE", "gpt-4o, gpt-4o-mini", ("gpt-4o", "gpt-4o-mini")),
    (
        "FABRIC_KEY_CAPS",
        "https://api.openai.com=20/day, https://api.openai.com=300.5/month",
        (("https://api.openai.com:443", "day", 20_000_000), ("https://api.openai.com:443", "month", 300_500_000)),
    ),
    ("FABRIC_TOOL_VARIABLES", "CRM, CRM@Crm.internal:443,", ("CRM", "CRM@crm.internal:443")),
    ("FABRIC_AUDIT_KEY", "AB" * 32, "ab" * 32),
    ("FABRIC_CHECKPOINTS", tempfile.gettempdir(), Path(tempfile.gettempdir())),
    ("FABRIC_API_PER_MINUTE", "600", 600),
    ("FABRIC_SIGN_IN_TRIES", "6", 6),
    ("FABRIC_TRUSTED_PROXIES", "10.0.0.7, 10.1.0.0/16, ::1", ("10.0.0.7", "10.1.0.0/16", "::1")),
    ("FABRIC_MODEL_TESTS_PER_MINUTE", "3", 3),
    ("FABRIC_OIDC_ISSUER", "https://login.example.org/realms/staff", "https://login.example.org/realms/staff"),
    ("FABRIC_OIDC_ISSUER", "http://127.0.0.1:9000", "http://127.0.0.1:9000"),
    ("FABRIC_OIDC_CLIENT_ID", "fabric-flow", "fabric-flow"),
    ("FABRIC_OIDC_CLIENT_SECRET", "s3cr3t~-._", "s3cr3t~-._"),
    (
        "FABRIC_OIDC_ROLES",
        "/staff=editor, a=b=reviewer, *=viewer,",
        (("/staff", "editor"), ("a=b", "reviewer"), ("*", "viewer")),
    ),
    ("FABRIC_OIDC_ROLES", "/staff=editor", (("/staff", "editor"),)),
    ("FABRIC_OIDC_DOMAINS", "Example.org, example.com", ("example.org", "example.com")),
    ("FABRIC_OIDC_GROUPS_CLAIM", "https://example.org/groups", "https://example.org/groups"),
    ("FABRIC_OIDC_NAME", "Example Ltd", "Example Ltd"),
    ("FABRIC_SECOND_FACTOR", "Required", "required"),
    ("FABRIC_SIGN_IN_IDLE_HOURS", "1", 1),
    ("FABRIC_SIGN_IN_HOURS", "168", 168),
    ("FABRIC_NOTIFY_MAIL", "ops@example.org, a+b@x.example,ops@example.org", ("ops@example.org", "a+b@x.example")),
    (
        "FABRIC_NOTIFY_WEBHOOKS",
        "https://hooks.example.org/T0/x?k=1%2C2, http://10.0.0.7:8080/in",
        ("https://hooks.example.org/T0/x?k=1%2C2", "http://10.0.0.7:8080/in"),
    ),
    ("FABRIC_NOTIFY_SLACK", "https://hooks.example.org/T0/x", ("https://hooks.example.org/T0/x",)),
    ("FABRIC_NOTIFY_TEAMS", "https://flow.example.org/1?sig=x", ("https://flow.example.org/1?sig=x",)),
    ("FABRIC_NOTIFY_RUN_ENDS", "refunds, *, refunds,", ("refunds", "*")),
    ("FABRIC_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("FABRIC_MAIL_FROM", "fabric@example.org", "fabric@example.org"),
    ("FABRIC_SMTP_HOST", "mail.example.org", "mail.example.org"),
    ("FABRIC_SMTP_PORT", "2525", 2525),
    ("FABRIC_SMTP_USER", "fabric", "fabric"),
    ("FABRIC_SMTP_PASSWORD", "two words", "two words"),
    ("FABRIC_SMTP_TLS", "TLS", "tls"),
    ("FABRIC_LOG_LEVEL", "info", "INFO"),
    ("FABRIC_LOG_FORMAT", "JSON", "json"),
    ("FABRIC_AUDIT_SYSLOG", "tls://logs.internal:6514", "tls://logs.internal:6514"),
    ("FABRIC_AUDIT_OTLP", "https://collector.internal:4318/v1/logs", "https://collector.internal:4318/v1/logs"),
    ("FABRIC_AUDIT_OTLP_KEY", "sesame", "sesame"),
    ("FABRIC_DEBUG", "1", True),
    ("FABRIC_DEBUG", "false", False),
    ("DATABASE_URL", "postgresql:///flow?host=/run/postgresql", "postgresql:///flow?host=/run/postgresql"),
    ("CELERY_BROKER_URL", "amqp://guest:guest@127.0.0.1:5672//", "amqp://guest:guest@127.0.0.1:5672//"),
    ("CHANNEL_URL", "redis://127.0.0.1:6379/1", "redis://127.0.0.1:6379/1"),
    ("DJANGO_SETTINGS_MODULE", "console.settings", "console.settings"),
    ("FABRIC_DATA", "/var/lib/fabric flow", "/var/lib/fabric flow"),
    ("FABRIC_MODEL", "some/model:7b", "some/model:7b"),
]


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_good_value(name, text, value):
    assert read(name, {name: text}) == value


BAD = [
    ("FABRIC_NOTIFY_MAIL", "ops"),
    ("FABRIC_NOTIFY_MAIL", "ops@example.org;b@example.org"),
    ("FABRIC_NOTIFY_MAIL", "Ops <ops@example.org>"),
    ("FABRIC_NOTIFY_RUN_ENDS", "Refunds"),
    ("FABRIC_NOTIFY_RUN_ENDS", "refunds-*"),
    ("FABRIC_NOTIFY_SLACK", "hooks.example.org/x"),
    ("FABRIC_NOTIFY_TEAMS", "ftp://flow.example.org/x"),
    ("FABRIC_NOTIFY_WEBHOOKS", "hooks.example.org/x"),
    ("FABRIC_NOTIFY_WEBHOOKS", "ftp://hooks.example.org/x"),
    ("FABRIC_NOTIFY_WEBHOOKS", "https://user:pass@hooks.example.org/x"),
    ("FABRIC_NOTIFY_WEBHOOKS", "https://hooks.example.org/x#y"),
    ("FABRIC_NOTIFY_WEBHOOKS", "https://hooks.example.org/x y"),
    ("FABRIC_WEBHOOK_SECRET", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("FABRIC_WEBHOOK_SECRET", "whsec_MfKQ"),
    ("FABRIC_WEBHOOK_SECRET", "whsec_" + "*" * 40),
    ("FABRIC_MAIL_FROM", "a@b@c"),
    ("FABRIC_SMTP_HOST", "mail.example.org:25"),
    ("FABRIC_SMTP_PORT", "0"),
    ("FABRIC_SMTP_USER", "a\x07"),
    ("FABRIC_SMTP_PASSWORD", "a\x07"),
    ("FABRIC_SMTP_TLS", "ssl"),
    ("FABRIC_PORT", "0"),
    ("FABRIC_PORT", "65536"),
    ("FABRIC_PORT", "-1"),
    ("FABRIC_PORT", "8420.0"),
    ("FABRIC_PORT", "http"),
    ("FABRIC_PUBLIC_URL", "banana"),
    ("FABRIC_PUBLIC_URL", "fabric.example.org"),
    ("FABRIC_PUBLIC_URL", "ftp://fabric.example.org"),
    ("FABRIC_PUBLIC_URL", "https://"),
    ("FABRIC_PUBLIC_URL", "https://:8420"),
    ("FABRIC_PUBLIC_URL", "https://fabric.example.org:port"),
    ("FABRIC_PUBLIC_URL", "https://fabric.example.org:0"),
    ("FABRIC_PUBLIC_URL", "https://[::1"),
    ("FABRIC_PUBLIC_URL", "https://a b.example.org"),
    ("FABRIC_PUBLIC_URL", "https://*.example.org"),
    ("FABRIC_PUBLIC_URL", "https://bücher.example.org"),
    ("FABRIC_PUBLIC_URL", "https://me:sesame@fabric.example.org"),
    ("FABRIC_PUBLIC_URL", "https://fabric.example.org/app"),
    ("FABRIC_PUBLIC_URL", "https://fabric.example.org?x=1"),
    ("FABRIC_SECRET_KEY", "sesame"),
    ("FABRIC_KEY_RING", "sesame"),
    ("FABRIC_KEY_RING", f"{'ab' * 32},{'AB' * 32}"),
    ("FABRIC_KEY_RING", ","),
    ("FABRIC_MODEL_URL", "127.0.0.1:8000/v1"),
    ("FABRIC_MODEL_URL", "https://me:sesame@models.example.org/v1"),
    ("FABRIC_MODEL_URL", "https://models.example.org/v1?key=sesame"),
    ("FABRIC_MODEL", "two\nlines"),
    ("FABRIC_MODEL_KEY", "Bearer sesame"),
    ("FABRIC_MODEL_KEY", "sesame-ü"),
    ("FABRIC_ANTHROPIC_KEY", "Bearer sesame"),
    ("FABRIC_ANTHROPIC_URL", "https://me:sesame@gateway.example.org"),
    ("FABRIC_GOOGLE_KEY", "sesame-ü"),
    ("FABRIC_GOOGLE_URL", "generativelanguage.googleapis.com?key=sesame"),
    ("FABRIC_AZURE_KEY", "Bearer sesame"),
    ("FABRIC_AZURE_URL", "https://example.openai.azure.com?api-version=sesame"),
    ("FABRIC_BEDROCK_KEY", "sesame-ü"),
    ("FABRIC_BEDROCK_URL", "https://me:sesame@bedrock-runtime.eu-west-1.amazonaws.com"),
    ("FABRIC_VERTEX_KEY", "Bearer sesame"),
    ("FABRIC_VERTEX_URL", "aiplatform.googleapis.com?key=sesame"),
    ("FABRIC_PROVIDERS", "no-pair-at-all"),
    ("FABRIC_PROVIDERS", "mine=NoDots"),
    ("FABRIC_PROVIDERS", "mine=a.b.C,mine=a.b.D"),
    ("FABRIC_PROVIDERS", "=a.b.C"),
    ("FABRIC_TOOLS", "a.b.pay"),
    ("FABRIC_TOOLS", "pay=pay"),
    ("FABRIC_TOOLS", "acme.pay=a.b.pay"),
    ("FABRIC_TOOLS", "pay=a.b:pay"),
    ("FABRIC_TOOLS", "pay=a.b.c,pay=a.b.d"),
    ("FABRIC_GRAPH_RULES", "NoDots"),
    ("FABRIC_GRAPH_RULES", "acme.routing:RULES"),
    ("FABRIC_GRAPH_RULES", "acme.routing.RULES,acme.routing.RULES"),
    ("FABRIC_ALLOWED_HOSTS", "models.internal"),
    ("FABRIC_ALLOWED_HOSTS", "http://models.internal:80"),
    ("FABRIC_ALLOWED_HOSTS", "models.internal:70000"),
    ("FABRIC_MCP_COMMANDS", "npx 'open"),
    ("FABRIC_MCP_COMMANDS", "..."),
    ("FABRIC_EXTRA_BODY", "a..b"),
    ("FABRIC_BELOW_LIST_PRICE", "gpt 4o"),
    ("FABRIC_KEY_CAPS", "https://api.openai.com=20"),
    ("FABRIC_KEY_CAPS", "https://api.openai.com=-1/day"),
    ("FABRIC_KEY_CAPS", "api.openai.com=20/day"),
    ("FABRIC_KEY_CAPS", "https://api.openai.com=NaN/day"),
    ("FABRIC_KEY_CAPS", "https://api.openai.com=1/day,https://api.openai.com:443=2/day"),
    ("FABRIC_TOOL_VARIABLES", "CRM@crm.internal"),
    ("FABRIC_TOOL_VARIABLES", "not-a-name"),
    ("FABRIC_TOOL_VARIABLES", "FABRIC_SECRET_KEY"),
    ("FABRIC_AUDIT_KEY", "sesame"),
    ("FABRIC_AUDIT_KEY", "0" * 63),
    ("FABRIC_CHECKPOINTS", "var/checkpoints"),
    ("FABRIC_CHECKPOINTS", "/nowhere/at/all"),
    ("FABRIC_API_PER_MINUTE", "-1"),
    ("FABRIC_SIGN_IN_TRIES", "many"),
    ("FABRIC_SIGN_IN_TRIES", "0"),
    ("FABRIC_TRUSTED_PROXIES", "proxy.internal"),
    ("FABRIC_OIDC_ISSUER", "login.example.org"),
    ("FABRIC_OIDC_ISSUER", "http://login.example.org"),
    ("FABRIC_OIDC_ISSUER", "https://user:pass@login.example.org"),
    ("FABRIC_OIDC_ISSUER", "https://login.example.org/?realm=staff"),
    ("FABRIC_OIDC_CLIENT_ID", "fabric flow"),
    ("FABRIC_OIDC_CLIENT_SECRET", "two words"),
    ("FABRIC_OIDC_ROLES", "staff"),
    ("FABRIC_OIDC_ROLES", "=editor"),
    ("FABRIC_OIDC_ROLES", "staff=Editor!"),
    ("FABRIC_OIDC_DOMAINS", "example"),
    ("FABRIC_OIDC_DOMAINS", "ada@example.org"),
    ("FABRIC_OIDC_GROUPS_CLAIM", "my groups"),
    ("FABRIC_OIDC_NAME", "n" * 41),
    ("FABRIC_SECOND_FACTOR", "sometimes"),
    ("FABRIC_SIGN_IN_IDLE_HOURS", "0"),
    ("FABRIC_SIGN_IN_IDLE_HOURS", "25"),
    ("FABRIC_SIGN_IN_HOURS", "23"),
    ("FABRIC_SIGN_IN_HOURS", "169"),
    ("FABRIC_MODEL_TESTS_PER_MINUTE", "-1"),
    ("FABRIC_SIGN_IN_TRIES", "9999999999"),
    ("FABRIC_LOG_LEVEL", "LOUD"),
    ("FABRIC_LOG_FORMAT", "xml"),
    ("FABRIC_AUDIT_SYSLOG", "logs.internal:514"),
    ("FABRIC_AUDIT_SYSLOG", "udp://logs.internal:0"),
    ("FABRIC_AUDIT_SYSLOG", "udp://logs.internal:514/x"),
    ("FABRIC_AUDIT_OTLP", "collector:4318"),
    ("FABRIC_AUDIT_OTLP_KEY", "two words"),
    ("FABRIC_DEBUG", "maybe"),
    ("DATABASE_URL", "mysql://u:sesame@x/y"),
    ("DATABASE_URL", "postgresql://u:sesame/x@127.0.0.1/y"),
    ("DATABASE_URL", "sqlite://var/lib/flow.sqlite3"),
    ("DATABASE_URL", "127.0.0.1"),
    ("CELERY_BROKER_URL", "carrier-pigeon://u:sesame@x"),
    ("CELERY_BROKER_URL", "redis://:sesame/@127.0.0.1:6379/0"),
    ("CHANNEL_URL", "amqp://guest:sesame@127.0.0.1"),
    ("DJANGO_SETTINGS_MODULE", "somebody.elses.settings"),
    ("DJANGO_SETTINGS_MODULE", ".."),
    ("FABRIC_DATA", "/var/lib/fabric\x07flow"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_is_one_sentence_that_names_it_and_says_what_to_do(name, text):
    with pytest.raises(StartRefused) as refused:
        read(name, {name: text})
    sentence = refused.value.sentence
    assert re.fullmatch(rf"{name} (is|has|holds|names|starts|does) [^\n]+[:,] [^\n]+\.", sentence)
    assert "sesame" not in sentence


def test_every_setting_has_a_good_and_a_bad_value_here():
    assert {name for name, *_ in GOOD} == set(SETTINGS)
    assert {name for name, _ in BAD} == set(SETTINGS)


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_an_empty_one_counts_as_none(name):
    assert read(name, {name: " "}) is read(name, {}) is None


def test_the_first_bad_setting_is_refused_and_no_test_s():
    refuse_unusable({"TEST_CHROMIUM": "\x07", "FABRIC_PORT": "8420"})
    with pytest.raises(StartRefused, match="^FABRIC_PORT"):
        refuse_unusable({"FABRIC_PORT": "many"})


def test_a_long_value_is_shown_in_part():
    with pytest.raises(StartRefused) as refused:
        read("FABRIC_LOG_LEVEL", {"FABRIC_LOG_LEVEL": "x" * 10_000})
    assert len(refused.value.sentence) < 200


def test_a_port_is_written_in_plain_digits():
    assert variables.port_number("٣٤") is None


@pytest.mark.parametrize(("name", "other"), [(name, other) for name, needed in NEEDS.items() for other in needed])
def test_a_setting_that_is_of_no_use_without_another_is_refused(name, other):
    good = {one: text for one, text, _ in GOOD}
    whole, left = {}, [name]
    while left:  # What it needs may need more.
        one = left.pop()
        whole[one] = good[one]
        left += (needed for needed in NEEDS.get(one, ()) if needed not in whole)
    refuse_unusable(whole)
    with pytest.raises(StartRefused, match=f"^{name} is set and {other} is not"):
        refuse_unusable({one: text for one, text in whole.items() if one != other})


TOGETHER = {
    "FABRIC_OIDC_ISSUER": "https://login.example.org",
    "FABRIC_OIDC_CLIENT_ID": "fabric",
    "FABRIC_OIDC_ROLES": "staff=editor",
}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"FABRIC_OIDC_ROLES": "*=viewer"}, "role for all persons"),
        ({"FABRIC_OIDC_ISSUER": "https://accounts.google.com"}, "anyone can have an account"),
    ],
)
def test_ways_in_that_stand_open_together_are_refused(more, said):
    refuse_unusable(TOGETHER)
    with pytest.raises(StartRefused, match=said):
        refuse_unusable(TOGETHER | more)
    refuse_unusable(TOGETHER | more | {"FABRIC_OIDC_DOMAINS": "example.org"})
