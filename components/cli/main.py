"""The command line: what there is, and how it is called. Each command imports its work when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from components.cli.errors import UsageError
from components.cli.invocation import Config, Json, LogJson, LogLevel, Node, Workload, end_with, run_with
from components.cli.security import declare_security
from components.cli.streams import prepare_streams

if TYPE_CHECKING:
    from components.settings import Settings

app = typer.Typer(
    name="piriscale",
    no_args_is_help=True,
    rich_markup_mode=None,  # importing rich would double the time of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Scales CPU and memory of running containers, verified against the kernel.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from components.shell.status import version

        print(f"piriscale {version() or '(not installed)'}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            envvar="PIRISCALE_CONFIG",
            help="Configuration (TOML), of every command.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    context.obj = config


@app.command()
def up(
    context: typer.Context, config: Config = None, log_level: LogLevel = "info", log_json: LogJson = False
) -> None:
    """Run a broker, unless one is configured, and everything."""

    def work(settings: "Settings") -> int:
        from components.cli.up import up as run_all

        return run_all(settings, log_level=log_level, log_json=log_json)

    run_with(context, config, work)


@app.command()
def run(
    context: typer.Context,
    component: Annotated[
        str,
        typer.Argument(
            help="monitoring_server, policy_manager, action_controller, resource_manager, node_agent, debug_tap "
            "or dashboard."
        ),
    ],
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Serve /metrics and /healthz on this port of metrics.host; 0: do not."
        ),
    ] = None,
    config: Config = None,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Run one component on the configured broker."""

    def work(settings: "Settings") -> int:
        from components.cli.up import run_one

        return run_one(settings, component, metrics_port, log_level=log_level, log_json=log_json)

    run_with(context, config, work)


@app.command()
def scale(
    context: typer.Context,
    workload: Annotated[
        str,
        typer.Argument(
            help="Exact name of the container, or its full id, or Pullpiri's model if that has just one running "
            "container on the node."
        ),
    ],
    *,
    node: Node = None,
    cpu: Annotated[str | None, typer.Option(help="CPU limit: 2, 0.5 or 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit: 512Mi or 2Gi.")] = None,
    cpu_shares: Annotated[int | None, typer.Option(help="Relative CPU weight, 2 to 262144.")] = None,
    cpuset: Annotated[str | None, typer.Option(help="CPUs it may run on, such as 0-2,4.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    wait: Annotated[str, typer.Option(help="How long this command waits for the end: 60s, 5m.")] = "60s",
    on_shortage: Annotated[
        str, typer.Option(help="When there is no room now: reject at once, or wait for it as long as --wait says.")
    ] = "reject",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Change the limits of a running container.

    Exit code: 0 done, 3 rejected, 4 failed or inconsistent, 5 timed out.
    """

    def work(settings: "Settings") -> int:
        from components.cli.scale import Wanted
        from components.cli.scale import scale as follow

        wanted = Wanted(
            workload=workload,
            node=node,
            cpu=cpu,
            memory=memory,
            cpu_shares=cpu_shares,
            cpuset=cpuset,
            dry_run=dry_run,
            wait=wait,
            on_shortage=on_shortage,
        )
        return follow(settings, wanted, as_json=as_json)

    run_with(context, config, work)


@app.command()
def status(context: typer.Context, config: Config = None, as_json: Json = False) -> None:
    """Show what needs attention, and everything at a glance."""

    def work(settings: "Settings") -> int:
        from components.cli.status import show_status

        return show_status(settings, as_json=as_json)

    run_with(context, config, work)


@app.command()
def watch(context: typer.Context, config: Config = None, as_json: Json = False) -> None:
    """Watch the whole system live; ? shows the keys.

    Without a terminal, or with --json, one line for each change.
    """

    def work(settings: "Settings") -> int:
        from components.cli.watch import watch as follow

        return follow(settings, as_json=as_json)

    run_with(context, config, work)


@app.command()
def history(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many of each, the latest.")] = 20,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show how the scalings of the last day ended.

    Read from the components' databases, so on the machine where they are.
    """

    def work(settings: "Settings") -> int:
        from components.cli.history import show_history

        return show_history(settings, limit, as_json=as_json)

    run_with(context, config, work)


Scope = Annotated[str | None, typer.Option(help="Only this one.")]


@app.command()
def pause(context: typer.Context, node: Scope = None, workload: Scope = None, config: Config = None) -> None:
    """Pause automatic scaling; by hand it still works."""
    _control(context, config, paused=True, node=node, workload=workload)


@app.command()
def resume(context: typer.Context, node: Scope = None, workload: Scope = None, config: Config = None) -> None:
    """Resume automatic scaling."""
    _control(context, config, paused=False, node=node, workload=workload)


def _control(
    context: typer.Context, config: Path | None, *, paused: bool, node: str | None, workload: str | None
) -> NoReturn:
    def work(settings: "Settings") -> int:
        from components.cli.control import control

        return control(settings, paused=paused, node=node, workload=workload)

    run_with(context, config, work)


@app.command()
def release(context: typer.Context, workload: Workload, node: Node = None, config: Config = None) -> None:
    """Forget the desired limits of a workload.

    What is in force stays, and is not defended any more.
    """

    def work(settings: "Settings") -> int:
        from components.cli.forget import release as let_go

        return let_go(settings, workload, node)

    run_with(context, config, work)


@app.command()
def forget_node(
    context: typer.Context,
    node: Annotated[str, typer.Argument(help="The node that is gone.")],
    force: Annotated[bool, typer.Option("--force", help="Even if its agent runs.")] = False,
    config: Config = None,
) -> None:
    """Delete what is retained of a node that is gone."""

    def work(settings: "Settings") -> int:
        from components.cli.forget import forget_node as forget

        return forget(settings, node, force=force)

    run_with(context, config, work)


@app.command()
def tail(
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="FILTER", help="MQTT topic filter, such as scaling/#.")] = "#",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show messages as they pass, decoded.

    Without debug/, unless the filter begins with it.
    """

    def work(settings: "Settings") -> int:
        from components.cli.tail import tail as follow

        return follow(settings, pattern, as_json=as_json)

    run_with(context, config, work)


Rights = Annotated[list[str] | None, typer.Option(help="Whose rights on the broker to see; may be repeated.")]


@app.command()
def doctor(context: typer.Context, component: Rights = None, config: Config = None, as_json: Json = False) -> None:
    """Tell what works on this machine and on the bus, and how to mend it.

    Changes nothing. Exit code 1 when something is wrong.
    """

    def work(settings: "Settings") -> int:
        from components.cli.doctor import examine

        return examine(settings, component or (), as_json=as_json)

    run_with(context, config, work)


@app.command()
def schema(
    as_json: Json = False,
    as_page: Annotated[bool, typer.Option("--markdown", help="Print a page for reading instead.")] = False,
) -> None:
    """Print the contract of the bus: an AsyncAPI 3.0 document, as YAML."""

    def work() -> int:
        if as_json and as_page:
            raise UsageError("--json or --markdown: it is printed as one of them")
        from components.cli.schema import show_schema

        return show_schema(as_json=as_json, as_page=as_page)

    end_with(work)


@app.command()
def demo(
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Without Podman: simulated containers, and said so.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Watch a slow application get more CPU and become fast."""

    def work() -> int:
        from components.cli.demo import run_demo

        return run_demo(json_output=as_json, simulated=simulated)

    end_with(work)


declare_security(app, end_with)


def main() -> None:
    """The console script `piriscale`."""
    prepare_streams()
    app()
