"""A worker whose providers cannot be had says so once, and starts as soon as they can."""

import threading

import pytest
from django.core.exceptions import ImproperlyConfigured

from fabric.composition import engine as wiring
from fabric.composition import worker as worker_process
from fabric.runtime.ports.calls import ModelRequest
from tests.console.launch.started_processes import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

TRIES: list[object] = []


class LateProvider:
    """Cannot be made at first."""

    def __init__(self) -> None:
        TRIES.append(self)
        if len(TRIES) < 4:
            raise RuntimeError("its file is not there")

    async def ask(self, request: ModelRequest) -> None:
        """No one does."""


def test_what_the_configuration_lacks_is_said_once(settings, monkeypatch, caplog):
    for cached in (wiring.store, wiring.nudge, wiring.compile_published, wiring._revision):
        cached.cache_clear()
    settings.FABRIC_PROVIDERS = {"late": f"{__name__}.LateProvider"}
    monkeypatch.setattr(worker_process, "AGAIN_S", 0.001)
    worker = worker_process.EngineWorker()
    worker.start()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "fabric-start"]
    thread.join(PATIENCE_S)
    assert worker.engine is not None
    worker.stop()
    assert len(TRIES) == 4
    assert caplog.text.count("the engine cannot be started, runs wait: provider 'late' is ") == 1
    assert "which cannot be made (RuntimeError: its file is not there): correct it, or FABRIC_PROVIDERS" in caplog.text


def test_a_module_that_ends_the_process_while_it_loads_is_one_sentence(settings, tmp_path, monkeypatch):
    (tmp_path / "ends_all.py").write_text("raise SystemExit(2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings.FABRIC_PROVIDERS = {"mine": "ends_all.Provider"}
    with pytest.raises(
        ImproperlyConfigured, match=r"which cannot be made \(SystemExit: 2\): correct it, or FABRIC_PROVIDERS"
    ):
        wiring.refuse_unusable_providers()
