"""The application of the demo: a small HTTP service whose every answer costs real CPU work.

Runs on its own inside the container, with the standard library alone: `python3 service.py PORT CPU_MS`.
"""

import hashlib
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

BLOCK = b"piriscale" * 1024
CALIBRATION_ROUNDS = 400


def work(rounds: int) -> str:
    """Hash a block `rounds` times over."""
    digest = hashlib.sha256()
    for _ in range(rounds):
        digest.update(BLOCK)
    return digest.hexdigest()


def calibrate(cpu_ms: float) -> int:
    """Rounds of work that cost `cpu_ms` of CPU time on this machine, whatever limit holds."""
    costs = []
    for _ in range(5):
        begin = time.process_time()
        work(CALIBRATION_ROUNDS)
        costs.append((time.process_time() - begin) * 1000)
    return max(1, round(CALIBRATION_ROUNDS * cpu_ms / min(costs)))


class Handler(BaseHTTPRequestHandler):
    """Answers each GET after its share of work."""

    rounds = 1

    def do_GET(self) -> None:
        """Work, then answer with the digest."""
        body = work(self.rounds).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server uses
        """Say nothing."""


def main() -> None:
    """Calibrate, then serve until killed."""
    port, cpu_ms = int(sys.argv[1]), float(sys.argv[2])
    Handler.rounds = calibrate(cpu_ms)
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
