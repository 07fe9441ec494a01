"""The exceptions for what a user can put right."""


class Mistake(Exception):
    """One sentence that says what is wrong and what to do; the command line prints it without a traceback."""


class MissingData(Mistake):
    """A dataset that is not on this machine, but can be made here."""
