"""`python -m tests.bench`: run benchmarks, print their tables, write what they found as JSON."""

import importlib
import json
import platform
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tests.bench.report import Report, show
from tests.bench.scale import Progress, Scale

BENCHMARKS = {
    "in-force": "in_force",
    "throughput": "throughput",
    "metrics-in": "metrics_in",
    "burst": "burst",
    "footprint": "footprint",
    "growth": "growth",
    "scale-out": "scale_out",
}
"""By name: the module whose `run` measures it."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def measure(name: str, scale: Scale, progress: Progress) -> Report:
    """Run one benchmark."""
    began = time.monotonic()
    report: Report = importlib.import_module(f"tests.bench.{BENCHMARKS[name]}").run(scale, progress)
    report.took_s = time.monotonic() - began
    return report


def machine() -> dict[str, Any]:
    """What it was measured on."""
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line.partition(":")[2].strip() for line in cpus.splitlines() if "model name" in line), "unknown")
    return {
        "cpu": model,
        "cpus": cpus.count("processor\t"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": Path("/proc/loadavg").read_text(encoding="utf-8").split()[0],
    }


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of: {', '.join(BENCHMARKS)}; none: all")] = None,
    *,
    short: Annotated[bool, typer.Option("--short", help="see that they run; the numbers mean nothing")] = False,
    output: Annotated[Path | None, typer.Option("--json", help="write what was found to this file")] = None,
) -> None:
    """Benchmarks of piriscale. Exit code 1: something was lost or wrong; goals that are missed are only shown."""
    for name in names or ():
        if name not in BENCHMARKS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(BENCHMARKS)}")
    screen = Console()
    reports = []
    found: dict[str, Any] = {"machine": machine(), "short": short, "benchmarks": []}
    with Progress(screen) as progress:
        for name in names or BENCHMARKS:
            reports.append(measure(name, Scale(short), progress))
            show(reports[-1], screen)
            found["benchmarks"].append(reports[-1].document())
            if output is not None:
                output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    raise typer.Exit(code=1 if any(report.wrong for report in reports) else 0)


if __name__ == "__main__":
    app()
