"""The exceptions that the command line handles differently: user mistakes, interruptions and internal defects."""

MISTAKE = 2  # exit code: the user must change the command or the input
BUSY = 75  # exit code: another process uses the folder (EX_TEMPFAIL of sysexits.h)
DEFECT = 70  # exit code: a bug in Holdfast (EX_SOFTWARE of sysexits.h)


class Mistake(Exception):
    """A mistake of the user: one sentence that says what is wrong and what to do, printed without a traceback."""


class MissingData(Mistake):
    """A dataset is not on this machine, but it can be built here."""


class Busy(Mistake):
    """Another process is using the same folder."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped the process after its progress was saved; the message says how far it got."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class BrokenRetention(Exception):
    """Learning changed a task that must stay bit-identical: a defect of Holdfast or of the machine, not of the user."""
