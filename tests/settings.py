"""The product's settings over a data directory that is thrown away."""

import atexit
import os
import shutil
import sys
import tempfile

if "pytest" in sys.modules:
    # A process that a test starts inherits these settings too and has been told its own directory: left alone.
    _data = tempfile.mkdtemp(prefix="fabric-test-")
    atexit.register(shutil.rmtree, _data, ignore_errors=True)
    os.environ["FABRIC_DATA"] = _data
    for _variable in (
        "DATABASE_URL",
        "CELERY_BROKER_URL",
        "CHANNEL_URL",
        "FABRIC_PUBLIC_URL",
        "FABRIC_PORT",
        "FABRIC_AUDIT_KEY",
        "FABRIC_KEY_RING",
        "FABRIC_KEY_RING_FILE",
        "FABRIC_AUDIT_SYSLOG",
        "FABRIC_AUDIT_OTLP",
        "FABRIC_AUDIT_OTLP_KEY",
        "FABRIC_LOG_FORMAT",
        "FABRIC_CHECKPOINTS",
    ):
        os.environ.pop(_variable, None)

from console.settings import *  # noqa: F403 - The environment has to be right before they are read.
from console.settings import DATABASES, FABRIC_DATA, INSTALLED_APPS

INSTALLED_APPS += ["tests.benchmarks", "tests.chaos"]  # Their commands.

# A file, not SQLite's memory: what threads and processes see of one another is part of what is tested.
# Its journals are append-only, and are emptied between tests all the same.
DATABASES["default"]["ENGINE"] = "tests.sqlite_backend"
DATABASES["default"]["TEST"] = {"NAME": str(FABRIC_DATA / "test.sqlite3")}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # Fast; guards nothing here.
WHITENOISE_AUTOREFRESH = (
    True  # Each client of a test is a server of its own, which would look for all files at its start.
)
