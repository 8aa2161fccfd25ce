"""What ends a command early, and with which exit code. Imports nothing, so that `--help` stays quick."""

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_REJECTED: Final = 3
EXIT_NOT_DONE: Final = 4
EXIT_TIMED_OUT: Final = 5
EXIT_INTERRUPTED: Final = 130


class CliError(Exception):
    """Ends the command; the text says what is wrong and what to do."""

    def __init__(self, text: str, code: int = EXIT_FAILURE) -> None:
        super().__init__(text)
        self.code = code


class UsageError(CliError):
    """The command or the configuration is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(text, EXIT_USAGE)
