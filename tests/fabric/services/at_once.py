"""Several callers in one moment: threads that begin together, and stores that let what lies between two steps happen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fabric.services.errors import Refused

PATIENCE_S = 60


def at_once(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return what each gave, or how it was refused, all called in the same moment. Raises what else went wrong."""
    from django.db import connection

    begin = threading.Barrier(len(acts))
    given: list[Any] = [None] * len(acts)

    def run(place: int) -> None:
        try:
            begin.wait(PATIENCE_S)
            given[place] = acts[place]()
        except Exception as error:  # noqa: BLE001 - It is looked at below, in the thread of the test.
            given[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in given:
        if isinstance(one, Exception) and not isinstance(one, Refused):
            raise one
    return given


class Together:
    """A journal store whose first writes wait for one another: none is written before all threads have read what there was."""

    def __init__(self, store: Any, callers: int) -> None:
        self._store = store
        self._all_read = threading.Barrier(callers)

    def put_input(self, *given: Any, **more: Any) -> bool:
        """As the store's, once all threads are here."""
        self._all_read.wait(PATIENCE_S)
        return bool(self._store.put_input(*given, **more))

    def create(self, *given: Any, **more: Any) -> tuple[str, bool]:
        """The same."""
        self._all_read.wait(PATIENCE_S)
        created: tuple[str, bool] = self._store.create(*given, **more)
        return created


class Meanwhile:
    """A journal store before whose first ``call`` something else happens."""

    def __init__(self, store: Any, happens: Callable[[], object], call: str = "put_input") -> None:
        self._store = store
        self._happens: Callable[[], object] | None = happens
        self._call = call

    def __getattr__(self, name: str) -> Any:
        """As the store's, after what happens."""
        if name == self._call:
            happens, self._happens = self._happens, None
            if happens is not None:
                happens()
        return getattr(self._store, name)
