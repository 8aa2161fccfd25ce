"""A real Prometheus beside a running system, on a port and in a folder of its own, ended by process id."""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.fixtures.broker import free_port
from tests.requirements import require

PROMETHEUS = Path(__file__).parents[2] / "compose" / "prometheus"
SCRAPE_S = 0.5
WITHIN_S = 60.0
STOP_WITHIN_S = 15


@dataclass(frozen=True)
class Prometheus:
    """Asked over its HTTP interface, as Grafana does."""

    port: int

    def ask(self, what: str, **parameters: str) -> Any:
        """Its answer's data. Raises what urllib raises, with HTTPError for an expression that it cannot read."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}{query}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        """The samples of an expression now."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        """The one sample's value; None when there is none."""
        samples = self.query(expression)
        assert len(samples) <= 1, samples
        return float(samples[0]["value"][1]) if samples else None

    def await_data(self, expression: str) -> None:
        """Until an expression has samples."""
        eventually(lambda: self.query(expression), f"no data: {expression}")


def eventually(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@contextlib.contextmanager
def scraping(metrics_port: int, folder: Path) -> Iterator[Prometheus]:
    """Watch what is served on a port with the rules and the configuration that are shipped, but more often."""
    require(shutil.which("prometheus") is not None, "prometheus (apt-get install prometheus)")
    folder.mkdir()
    body = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    body["global"] = {"scrape_interval": f"{round(SCRAPE_S * 1000)}ms", "evaluation_interval": "1s"}
    body["scrape_configs"] = [job for job in body["scrape_configs"] if job["job_name"] == "piriscale"]
    body["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{metrics_port}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(body), encoding="utf-8")
    shutil.copy(PROMETHEUS / "rules.yml", folder)
    port, log = free_port(), folder / "prometheus.log"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    try:
        _await_ready(port, process, log)
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(STOP_WITHIN_S)


def _await_ready(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    def ready() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=2):
            return True
        return False

    eventually(ready, "Prometheus does not start")
