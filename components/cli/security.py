"""The commands about who is let in: how they are called. Their work is in `components.cli.certs`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

_DAYS: Final = 397
_PORT: Final = 8883
_GUESTS_PORT: Final = 8884


def declare_security(app: typer.Typer, end_with: Callable[[Callable[[], int]], NoReturn]) -> None:
    """Add `certs` and `broker-config` to the command line; `end_with` does the work and exits with its code."""

    @app.command()
    def certs(
        directory: Annotated[Path, typer.Argument(help="Where the authority and all certificates are kept.")],
        identity: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="[IDENTITY]",
                help="node_agent/NODE, application/NODE[/WORKLOAD], cli/NAME, admin/NAME, bridge/NAME, or broker.",
            ),
        ] = None,
        *,
        host: Annotated[
            list[str] | None, typer.Option(help="Name or address of the broker; may be repeated.")
        ] = None,
        days: Annotated[int, typer.Option(help="How long the new ones are valid.")] = _DAYS,
        force: Annotated[
            bool, typer.Option("--force", help="Make those named anew, even if there are some.")
        ] = False,
    ) -> None:
        """Make certificates for a bench: authority, broker, components, and those named.

        What there is stays, so that nodes and people can be added later.
        """

        def work() -> int:
            from components.cli.certs import make_certificates

            return make_certificates(directory, identity or (), host or (), days=days, force=force)

        end_with(work)

    @app.command()
    def broker_config(
        directory: Annotated[Path, typer.Argument(help="Where `piriscale certs` keeps the certificates.")],
        identity: Annotated[
            list[str] | None, typer.Argument(metavar="[IDENTITY]", help="Further ones, certified elsewhere.")
        ] = None,
        *,
        into: Annotated[Path | None, typer.Option(help="Folder to write; default: DIRECTORY/broker.")] = None,
        port: Annotated[int, typer.Option(min=1, max=65_535, help="Where it is to listen.")] = _PORT,
        guests_port: Annotated[
            int, typer.Option(min=1, max=65_535, help="And for application/… and bridge/….")
        ] = _GUESTS_PORT,
        bind: Annotated[str, typer.Option(help="Address it is to listen on; 0.0.0.0: all.")] = "127.0.0.1",
        topic_prefix: Annotated[
            list[str] | None,
            typer.Option(
                help="As in the configuration of the components; the rights are below it. A fleet's broker, where "
                "people and debug_tap look at several vehicles, gets one for each vehicle: it may be repeated. A "
                "bridge's rights are below its own name."
            ),
        ] = None,
        show: Annotated[bool, typer.Option("--show", help="Print both files, write nothing.")] = False,
    ) -> None:
        """Write mosquitto.conf and the access rules of a broker that knows every identity."""

        def work() -> int:
            from components.cli.certs import configure_broker

            return configure_broker(
                directory,
                identity or (),
                into=into,
                port=port,
                guests_port=guests_port,
                bind=bind,
                topic_prefixes=topic_prefix or (),
                show=show,
            )

        end_with(work)
