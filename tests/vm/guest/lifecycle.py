"""What happens to limits when others act: restarts, reloads of systemd, re-creation, updates behind our back."""

import os
import threading
from pathlib import Path
from typing import Final

from tests.vm.guest.bench import Bench, resource_limits, run
from tests.vm.guest.cells import STEADY, WORKS, Cell, WrongError, kept_or_lost, snapshot, tried

EVENT_TIMEOUT_S: Final = 60.0


def restarted(bench: Bench) -> Cell:
    bench.start("again", **resource_limits(cpu=500, memory=128))
    try:
        cell = tried(bench, "again", cpu_limit=900, memory_limit=200)
        if cell.result != WORKS:
            return cell
        bench.call("POST", "/containers/again/restart?t=0")
        return kept_or_lost(bench, "again", cpu=900, memory=200)
    finally:
        bench.remove("again")


def reloaded(bench: Bench) -> Cell:
    cell = tried(bench, STEADY, cpu_limit=955, memory_limit=210)  # half a percent, which systemd rounds up
    if cell.result != WORKS:
        return cell
    if not Path("/run/systemd/system").exists():
        return Cell("no systemd here")
    run("systemctl", *([] if os.geteuid() == 0 else ["--user"]), "daemon-reload")
    return kept_or_lost(bench, STEADY, cpu=955, memory=210)


def recreated(bench: Bench) -> Cell:
    old = bench.start("renewed", **resource_limits(cpu=500, memory=128))
    bench.runtime.resolve("renewed")
    bench.start("renewed", **resource_limits(cpu=500, memory=128))
    try:
        before = snapshot(bench.kernel("renewed"))
        late = bench.update("renewed", runtime_id=old, cpu_limit=900)
        if late.success or snapshot(bench.kernel("renewed")) != before:
            raise WrongError("a command for the old container reached the new one")
        meant = tried(bench, "renewed", cpu_limit=900)
        return meant if meant.result != WORKS else Cell(WORKS, f"late command: {late.message}")
    finally:
        bench.remove("renewed")


def foreign(bench: Bench) -> Cell:
    bench.runtime.resolve(STEADY)
    try:
        bench.cli("update", "--cpus", "0.75", "--memory", "240m", STEADY)
    except RuntimeError as error:
        return Cell("Podman refuses", str(error))
    shown = bench.runtime.read(bench.runtime.resolve(STEADY)).limits
    if (shown.cpu_limit, shown.memory_limit) != (750, 240):
        raise WrongError(f"the agent reads {shown}")
    return Cell("seen", f"{shown.cpu_limit}m, {shown.memory_limit}Mi")


def events(bench: Bench) -> Cell:
    seen: list[str] = []
    arrived = threading.Event()
    stream = bench.runtime.open_events(None)
    identity = bench.runtime.resolve(STEADY).id

    def listen() -> None:
        for event in stream:
            seen.append(event.action)
            if event.container_id == identity and event.action == "start":
                arrived.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    bench.call("POST", f"/containers/{STEADY}/restart?t=0")
    told = arrived.wait(EVENT_TIMEOUT_S)
    stream.close()
    listener.join(10)
    return Cell("told" if told else "not told", " ".join(seen))
