"""Texts that may be used once: the first user gets them."""

from __future__ import annotations

import time
from hashlib import sha256

from django.db import IntegrityError, transaction

from fabric.core.values.units import US
from fabric.models import UsedOnce


def use_once(text: str, *, for_s: float) -> bool:
    """Mark a text as used; return False if it was used before. The mark lasts ``for_s`` seconds, after which the
    text must be invalid anyway.
    """
    now = time.time_ns() // 1_000
    UsedOnce.objects.filter(until__lt=now).delete()
    key = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        with transaction.atomic():
            UsedOnce.objects.create(key=key, until=now + round(for_s * US))
    except IntegrityError:
        return False
    return True
