"""Runs in the machine under test: carries out commands that come through a virtio port, one JSON line each way.

Imports nothing but the standard library, and runs with the Python of the guest.
"""

import json
import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO


def as_user(user: str, argv: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command line and environment that run `argv` in a login of `user`, as somebody at the machine would."""
    if user == "root":
        return argv, {**os.environ, "HOME": "/root", "USER": "root", "LANG": "C.UTF-8"}
    account = pwd.getpwnam(user)
    runtime = f"/run/user/{account.pw_uid}"
    environment = {
        "HOME": account.pw_dir,
        "USER": user,
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "XDG_RUNTIME_DIR": runtime,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
    }
    script = 'cd && exec "$@"'
    return ["su", "--shell", "/bin/bash", "--command", script, user, "--", "bash", *argv], environment


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """Run one command to its end, or to its time-out, with everything it started in its process group."""
    argv, environment = as_user(order["user"], order["argv"])
    process = subprocess.Popen(
        argv,
        env=environment | order["environment"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(order["stdin"].encode(), timeout=order["timeout_s"])
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = None
    return {"exit_code": code, "stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace")}


def say(port: BinaryIO, message: dict[str, Any]) -> None:
    """Send one line."""
    port.write(json.dumps(message).encode() + b"\n")
    port.flush()


def serve(port: BinaryIO) -> None:
    """Answer until the host goes away."""
    say(port, {"ready": True})
    for line in port:
        order = json.loads(line)
        try:
            answer = carry_out(order)
        except OSError as error:
            answer = {"exit_code": 127, "stdout": "", "stderr": str(error)}
        say(port, answer | {"id": order["id"]})


if __name__ == "__main__":
    with Path(sys.argv[1]).open("r+b", buffering=0) as raw:
        serve(raw)
