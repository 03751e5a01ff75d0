"""What may be used a single time: the first who comes has it."""

from __future__ import annotations

import time
from hashlib import sha256

from django.db import IntegrityError, transaction

from fabric.models import UsedOnce

US = 1_000_000


def use_once(text: str, *, for_s: float) -> bool:
    """Whether nobody used it before. It is remembered for so many seconds, after which it has to be of no use by itself."""
    now = time.time_ns() // 1_000
    UsedOnce.objects.filter(until__lt=now).delete()
    key = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        with transaction.atomic():
            UsedOnce.objects.create(key=key, until=now + round(for_s * US))
    except IntegrityError:
        return False
    return True
