import pytest

from console.launch.processes.errors import StartRefused
from console.launch.variables import addresses


def test_without_an_address_everything_is_in_the_data_directory(tmp_path):
    assert addresses.database(None, tmp_path)["NAME"] == str(tmp_path / "fabric.sqlite3")
    broker = addresses.broker(None, tmp_path)
    assert broker["CELERY_BROKER_URL"].startswith("filesystem://")
    options = broker["CELERY_BROKER_TRANSPORT_OPTIONS"]
    assert options["data_folder_in"] == options["data_folder_out"] == str(tmp_path / "broker" / "messages")
    assert (tmp_path / "broker" / "control").is_dir()
    assert "InMemory" in addresses.channel_layer(None)["BACKEND"]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("sqlite:///other.sqlite3", "{}/other.sqlite3"),
        ("sqlite:////var/lib/f.db", "/var/lib/f.db"),
        ("", "{}/fabric.sqlite3"),
    ],
)
def test_sqlite(address, name, tmp_path):
    database = addresses.database(address, tmp_path)
    assert database["NAME"] == name.format(tmp_path)
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_postgresql_with_everything_in_it(tmp_path):
    database = addresses.database("postgresql://us%40er:p%2Fw@db.example.org:6432/na%20me?sslmode=require", tmp_path)
    named = {key: database[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    assert named == {"NAME": "na me", "USER": "us@er", "PASSWORD": "p/w", "HOST": "db.example.org", "PORT": "6432"}
    assert database["OPTIONS"]["sslmode"] == "require"


def test_an_idle_redis_channel_layer_is_not_cut_off():
    (host,) = addresses.channel_layer("redis://127.0.0.1:6379/3")["CONFIG"]["hosts"]
    assert host == {"address": "redis://127.0.0.1:6379/3", "socket_timeout": None}


@pytest.mark.parametrize("address", ["mysql://x/y", "postgresql://x:port/y", "127.0.0.1", "sqlite://x/y"])
def test_a_database_address_that_is_none_is_a_sentence(address, tmp_path):
    with pytest.raises(StartRefused, match="^DATABASE_URL .*: (use|write|write it as) "):
        addresses.database(address, tmp_path)


def test_a_channel_layer_that_is_not_redis_is_a_sentence():
    with pytest.raises(StartRefused, match="^CHANNEL_URL"):
        addresses.channel_layer("amqp://guest@127.0.0.1")


@pytest.mark.parametrize("address", ["redis://127.0.0.1:6379/0", "amqp://guest:guest@127.0.0.1:5672//"])
def test_a_message_is_tried_once(address, tmp_path):
    assert addresses.broker(address, tmp_path)["CELERY_BROKER_TRANSPORT_OPTIONS"]["max_retries"] == 0


def test_a_broker_of_another_kind_is_a_sentence(tmp_path):
    with pytest.raises(StartRefused, match="^CELERY_BROKER_URL starts with 'sqs': use redis://"):
        addresses.broker("sqs://x", tmp_path)


def test_a_sentence_does_not_show_a_password_that_broke_its_address(tmp_path):
    with pytest.raises(StartRefused) as refused:
        addresses.database("postgresql://u:sesame/x@127.0.0.1/y", tmp_path)
    assert "sesame" not in refused.value.sentence
