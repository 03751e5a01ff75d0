"""The broker of files: a torn message is passed over, and what lies behind it is taken; without messages it is seldom looked at."""

import pytest
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.simple import SimpleQueue

from console.launch.variables import addresses
from console.site import file_broker


@pytest.fixture
def broker(tmp_path):
    settings = addresses.broker(None, tmp_path)
    options = settings["CELERY_BROKER_TRANSPORT_OPTIONS"]
    with Connection(
        settings["CELERY_BROKER_URL"], transport=settings["CELERY_BROKER_TRANSPORT"], transport_options=options
    ) as connection:
        yield connection, tmp_path / "broker" / "messages"


def test_a_torn_message_is_passed_over(broker):
    connection, messages = broker
    with SimpleQueue(connection, "torn") as queue:
        queue.put({"n": 1})
        (whole,) = messages.iterdir()
        for number, torn in enumerate(["", '{"body": "half of']):
            (messages / f"0{number}_{whole.name.partition('_')[2]}").write_text(torn)
        assert sorted(messages.iterdir())[2] == whole  # They are in front of it.
        assert queue.get(timeout=10).payload == {"n": 1}
        with pytest.raises(queue.Empty):
            queue.get_nowait()
    assert list(messages.iterdir()) == []


def test_without_messages_the_folder_is_looked_at_four_times_a_second(tmp_path):
    """A worker waits two seconds at a time (Celery's ``synloop``)."""
    looks = []

    class Channel(file_broker.Channel):
        def _get(self, queue, timeout=None):
            looks.append(queue)
            return super()._get(queue, timeout)

    class Transport(file_broker.Transport):
        pass

    Transport.Channel = Channel
    options = addresses.broker(None, tmp_path)["CELERY_BROKER_TRANSPORT_OPTIONS"]
    with (
        Connection("filesystem://", transport=Transport, transport_options=options) as connection,
        connection.Consumer(Queue("idle"), callbacks=[print]),
    ):
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=2.0)
        assert 1 <= len(looks) <= 10
