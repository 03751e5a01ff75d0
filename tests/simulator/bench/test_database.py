from console.variables import SETTINGS
from simulator.bench.database import fresh, inherited

OPERATORS = set(SETTINGS)


def test_no_setting_of_an_operator_reaches_what_is_made_here(monkeypatch):
    """Neither models that cost money, nor people who would be told."""
    for name in OPERATORS:
        monkeypatch.setenv(name, "the operator's")
    assert "PATH" in inherited()
    assert OPERATORS & set(inherited()) == set()
    with fresh("sqlite", migrated=False) as environment:
        assert OPERATORS & set(environment) == {"FABRIC_DATA", "DJANGO_SETTINGS_MODULE"}
        assert "the operator's" not in environment.values()
