"""Many nodes in one process, each an agent of its own on a simulated runtime: `python -m tests.bench.agents`.

A real node has its agent in a process of its own. 200 of those would measure the memory of this machine, not the
control plane; what an agent costs is measured apart.
"""

import signal
import sys
from functools import partial
from pathlib import Path

from components.cli.identity import connector, options_of
from components.node_agent import build
from components.settings import Settings
from components.shell.logs import start_logging
from components.shell.run import Process


def node_name(number: int) -> str:
    return f"node-{number:04}"


def settings_of(url: str, number: int, containers: int, metrics_s: float, folder: Path) -> Settings:
    """The configuration of one node."""
    return Settings.model_validate(
        {
            "broker": {"url": url},
            "node_agent": {
                "node": node_name(number),
                "runtime": "simulated",
                "simulated_containers": containers,
                "metrics_interval_s": metrics_s,
                "state_dir": folder / node_name(number),
            },
        }
    )


def main(url: str, first: str, nodes: str, containers: str, metrics_s: str, folder: str) -> None:
    """Run the agents of so many nodes, from a number on, until SIGTERM."""
    start_logging("warning")
    every = [
        settings_of(url, int(first) + number, int(containers), float(metrics_s), Path(folder))
        for number in range(int(nodes))
    ]
    process = Process(connector(options_of(every[0].broker)))
    for settings in every:
        process.add(partial(build, settings))
    signal.signal(signal.SIGTERM, lambda _number, _frame: process.end())
    process.start()
    process.wait()
    process.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
