"""The launcher's refusal."""


class StartRefused(SystemExit):
    """Ends the process with exit code 1 and one sentence on standard error: the fault, its place, the remedy.

    It is a SystemExit, so that it reads alike under manage.py, the web server and a worker.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
