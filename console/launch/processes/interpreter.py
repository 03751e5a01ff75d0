"""Names the versions of Python on which Fabric Flow runs.

Any interpreter may read this module (and manage.py, up to the check). So it keeps to syntax that every Python
understands: a SyntaxError is no answer.
"""

OLDEST = (3, 11)
NEWEST = (3, 14)  # The newest one for which every locked dependency has a built wheel.


def refusal(version):
    # type: (tuple[int, int]) -> str | None
    """Return the sentence that refuses a Python `version` (major and minor), or None if it is supported."""
    if tuple(version) < OLDEST:
        reason, instead = "older", OLDEST
    elif tuple(version) > NEWEST:
        reason, instead = "newer", NEWEST
    else:
        return None
    return (
        "Python %d.%d is %s than Fabric Flow runs on, which is %d.%d to %d.%d: "
        "start it with one of those, for example `python%d.%d manage.py up`."
    ) % ((version[0], version[1], reason) + OLDEST + NEWEST + instead)
