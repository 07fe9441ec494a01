"""The exceptions that the command line tells apart: mistakes of a user, interruptions, and defects of ours."""

MISTAKE = 2  # the exit code of what a user must put right
BUSY = 75  # the exit code where another process must end first, as sysexits.h has it
DEFECT = 70  # the exit code of what we must put right, as sysexits.h has it


class Mistake(Exception):
    """One sentence that says what is wrong and what to do; the command line prints it without a traceback."""


class MissingData(Mistake):
    """A dataset that is not on this machine, but can be made here."""


class Busy(Mistake):
    """Another process is working in the same folder: wait for it."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the process to stop, and what was done so far is saved; the message says how far it came."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class BrokenRetention(Exception):
    """Learning changed a task that must stay equal to the bit: a defect of ours or of the machine, not a mistake."""
