"""What every command shares: its options, its configuration, and how it ends."""

import errno
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from components.cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, CliError, UsageError
from components.cli.streams import discard

if TYPE_CHECKING:
    from components.settings import Settings

Config = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Configuration (TOML).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Node = Annotated[
    str | None, typer.Option("--node", "-n", help="Its node; may be left out when exactly one is known.")
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log JSON, one object a line.")]
Workload = Annotated[str, typer.Argument(help="Exact name of the container, or its full id.")]

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing the output may end with. (Databases say it in words of their own, as StorageError.)"""


def run_with(context: typer.Context, config: Path | None, work: "Callable[[Settings], int]") -> NoReturn:
    """Load the configuration, do the work, and end with its exit code."""
    end_with(lambda: work(_settings(config or context.obj)))


def end_with(work: Callable[[], int]) -> NoReturn:
    """Do the work and end with its exit code; errors are one line on stderr."""
    if not logging.getLogger().handlers:  # unless the work starts logging, the error says enough
        logging.getLogger().addHandler(logging.NullHandler())
    code = EXIT_OK
    try:
        code = work()
        sys.stdout.flush()
    except CliError as error:
        print(f"piriscale: {error}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        discard(sys.stdout)
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        print(f"piriscale: the output cannot be written: {error.strerror}", file=sys.stderr)
        discard(sys.stdout)
        code = EXIT_FAILURE
    raise typer.Exit(code)


def _settings(path: Path | None) -> "Settings":
    from components.settings import SettingsError, load_settings

    try:
        return load_settings(path)
    except SettingsError as error:
        raise UsageError(str(error)) from error
