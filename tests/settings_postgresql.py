"""The tests' settings with PostgreSQL in SQLite's place: ``pytest --ds tests.settings_postgresql PATHS``, at the server that TEST_DATABASE_URL names."""

import os

from console.launch.variables.addresses import database
from tests.servers.addresses import SERVERS, locate
from tests.settings import *  # noqa: F403 - The same but for the database.
from tests.settings import DATABASES, FABRIC_DATA

(_postgresql,) = (server for server in SERVERS if server.name == "PostgreSQL")
DATABASES["default"] = database(locate()[0].get(_postgresql.variable, _postgresql.usual[0]), FABRIC_DATA)
DATABASES["default"]["ENGINE"] = "tests.postgresql_backend"
DATABASES["default"]["TEST"] = {"NAME": f"fabric_test_{os.getpid()}"}
