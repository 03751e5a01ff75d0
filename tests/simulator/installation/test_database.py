from console.launch.variables.table import SETTINGS
from simulator.installation.database import clean_environment, temporary_database

OPERATORS = set(SETTINGS)


def test_no_setting_of_an_operator_reaches_what_is_made_here(monkeypatch):
    """Neither models that cost money, nor people who would be told."""
    for name in OPERATORS:
        monkeypatch.setenv(name, "the operator's")
    assert "PATH" in clean_environment()
    assert OPERATORS & set(clean_environment()) == set()
    with temporary_database("sqlite", migrated=False) as environment:
        assert OPERATORS & set(environment) == {"FABRIC_DATA", "DJANGO_SETTINGS_MODULE"}
        assert "the operator's" not in environment.values()
