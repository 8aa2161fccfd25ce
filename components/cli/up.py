"""`up` and `run`: components at work in this process, until a signal or a fatal error."""

import contextlib
import logging
import signal
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Final

from broker.access import component_identity
from broker.configuration import MosquittoConfiguration
from broker.mosquitto import BrokerError, ManagedBroker
from broker.options import BrokerOptions
from broker.statistics import BrokerStatistics
from components.cli.assembly import OPTIONAL, builder_of, place_of, role_of, roles_of
from components.cli.errors import EXIT_FAILURE, EXIT_OK, CliError, UsageError
from components.cli.identity import connector_for, options_of
from components.cli.screen import console, table
from components.monitoring_server.share import Share
from components.settings import Settings, state_directory
from components.shell.http import PortTakenError
from components.shell.logs import start_logging
from components.shell.run import Process
from components.shell.shell import client_id_of
from components.shell.status import version
from schemas.topics import Role

_log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def up(settings: Settings, *, log_level: str, log_json: bool) -> int:
    """Run the broker, unless one is configured, and all components. Returns the exit code."""
    _start_logging(log_level, log_json)
    with contextlib.ExitStack() as cleanup:
        managed = None
        if settings.broker.url is None:
            managed = _managed_broker(settings)
            cleanup.callback(managed.stop)
        port = settings.metrics.port or None
        return _serve(settings, roles_of(settings), port, managed, OPTIONAL)


def run_one(settings: Settings, name: str, metrics_port: int | None, *, log_level: str, log_json: bool) -> int:
    """Run one component; without a port, or with 0, it serves no metrics. Returns the exit code."""
    role = role_of(name)
    _start_logging(log_level, log_json)
    return _serve(settings, (role,), metrics_port or None, None)


def _start_logging(level: str, as_json: bool) -> None:
    try:
        start_logging(level, as_json=as_json)
    except ValueError as error:
        raise UsageError(f"--log-level: {error}") from error


def _managed_broker(settings: Settings) -> ManagedBroker:
    directory = settings.broker.data_dir or state_directory() / f"broker-{settings.broker.port}"
    managed = ManagedBroker(directory, MosquittoConfiguration(port=settings.broker.port))
    try:
        managed.start()
    except (BrokerError, OSError) as error:
        raise CliError(f"the broker cannot be started: {error}") from error
    return managed


def _serve(
    settings: Settings,
    roles: Iterable[Role],
    metrics_port: int | None,
    managed: ManagedBroker | None,
    optional: frozenset[Role] = frozenset(),
) -> int:
    """Build, start, wait for the end, stop. Without an optional component that cannot be built it goes on."""
    roles = tuple(roles)
    options = options_of(settings.broker, component_identity(roles[0], settings.node_agent.node))
    watches = metrics_port is not None and Role.MONITORING_SERVER in roles
    statistics = _statistics(settings) if watches else None
    expiries: dict[str, float] = {}
    try:
        process = Process(
            connector_for(settings.broker, expiries),
            topic_prefix=settings.broker.topic_prefix,
            wire=settings.broker.wire,
            metrics_port=metrics_port,
            metrics_host=settings.metrics.host,
            statistics=statistics,
            expiries=expiries,
            also=lambda: f"broker: {managed.problem}" if managed and managed.problem else None,
        )
    except PortTakenError as error:
        raise CliError(str(error)) from error
    for role in roles:
        _add(process, role, settings, optional=role in optional)
    with _signals_end(process), statistics or contextlib.nullcontext():
        _announce(process, settings, options, managed)
        process.start()
        why = process.wait()
        _log.info("ending: %s", why or "asked to")
        clean = process.stop()
    if why is not None:
        raise CliError(why)
    return EXIT_OK if clean else EXIT_FAILURE


def _statistics(settings: Settings) -> BrokerStatistics:
    """What the broker tells of itself, heard under MonitoringServer's identity."""
    identity = component_identity(Role.MONITORING_SERVER, settings.node_agent.node)
    instance = f"statistics-{Share(*settings.monitoring.part).name}"  # each part listens beside the others
    client_id = client_id_of(Role.MONITORING_SERVER, instance, settings.broker.topic_prefix)
    return BrokerStatistics(options_of(settings.broker, identity), client_id)


def _add(process: Process, role: Role, settings: Settings, *, optional: bool) -> None:
    """Build a component. Whatever prevents that is said in one line; its trace goes to the log."""
    try:
        process.add(builder_of(role, settings))
    except Exception as error:
        _log.debug("%s cannot be built", role, exc_info=True)
        if optional:
            _log.warning("%s cannot start, the others go on without it: %s", role, error)
            return
        process.stop()
        raise CliError(f"{role} cannot start: {error}") from error


@contextlib.contextmanager
def _signals_end(process: Process) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the process in order; a second one ends it at once."""

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        process.end()

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(process: Process, settings: Settings, options: BrokerOptions, managed: ManagedBroker | None) -> None:
    """A short table of what runs, and where."""
    rows = table("COMPONENT", "WHERE")
    where = f"{options}, log in {managed.log_file}" if managed else str(options)
    rows.add_row("broker", f"{where}, topics under {options.topic_prefix}/" if options.topic_prefix else where)
    for shell in process.shells:
        rows.add_row(shell.component, place_of(Role(shell.component), settings))
    if process.metrics_port:
        rows.add_row("metrics", f"http://{settings.metrics.host}:{process.metrics_port}/metrics, /healthz")
    screen = console()
    screen.print(f"piriscale {version()}", style="bold")
    screen.print(rows)
    screen.print("Ctrl-C ends it.", style="dim")
