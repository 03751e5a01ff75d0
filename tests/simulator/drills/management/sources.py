"""Scenarios for tests, as TOML."""

PROBE = '\n[[steady_state.probes]]\nprobe = "state"\ntolerance = "completed"\n'
DOWN = '\n[[disturbance]]\nfault = "unavailable"\nrole = "${role}"\n'


def source(name: str = "mine", rest: str = "", *, failure: str = "provider_failure", probes: str = PROBE) -> str:
    """A scenario with a parameter ``role``, whose model answers 503 to the finalizer."""
    named = f'failure = "{failure}"\n' if failure else ""
    return (
        f'name = "{name}"\ntitle = "The endpoint is down"\ndescription = "For a test."\n{named}seed = 5\n'
        f'\n[parameters]\nrole = "finalizer"\n{DOWN}{rest}{probes}'
    )


def plain(name: str) -> str:
    """A scenario without a parameter, and without a brace."""
    return source(name).replace('\n[parameters]\nrole = "finalizer"\n', "").replace("${role}", "finalizer")
