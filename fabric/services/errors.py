"""The one refusal of services and selectors. It lives below the selectors, which raise it too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fabric.runtime.ports.journal import StoreUnavailable
from fabric.selectors.errors import Code, Placed, Refused
from fabric.stores.errors import RowRefused, RunMissing

__all__ = ["Code", "Placed", "Refused", "store_answers"]


@contextmanager
def store_answers() -> Iterator[None]:
    """Turn the errors of a journal store into a Refused with the store's own sentence."""
    try:
        yield
    except StoreUnavailable as error:
        raise Refused(str(error), code="unavailable") from error
    except RowRefused as error:
        raise Refused(str(error), code="invalid") from error
    except RunMissing as error:
        raise Refused(str(error), code="not_found", field="run") from error
