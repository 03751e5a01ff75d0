"""How the launcher says no."""


class Refused(SystemExit):
    """Ends the process with exit code 1 and one sentence on standard error: what is wrong, where, what to do.

    A SystemExit, so that it reads the same whether it is raised under manage.py, the web server or a worker.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
