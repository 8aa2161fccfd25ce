"""The machine itself: without these nothing that it tells of Podman could be believed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requirements import require
from tests.vm import checkout
from tests.vm.columns import DEBIAN_13, USER
from tests.vm.fleet import can_build
from tests.vm.machine import CommandError, Machine, MachineError, build_image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


POWER_OFF = "echo farewell > /dev/console; sleep 1; echo b > /proc/sysrq-trigger; sleep 100"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require(can_build() is None, can_build() or "")
    scratch: Path = tmp_path_factory.mktemp("vm")
    image = build_image(DEBIAN_13.suite)
    with Machine(image, checkout.disk(DEBIAN_13.python, scratch), scratch) as machine:
        yield machine


def test_output_and_exit_code_of_a_command_come_back(machine: Machine) -> None:
    finished = machine.run("bash", "-c", "cat; echo worse >&2; exit 3", stdin="ä fine line\n")
    assert (finished.exit_code, finished.stdout, finished.stderr) == (3, "ä fine line\n", "worse\n")


def test_a_command_that_fails_says_why(machine: Machine) -> None:
    with pytest.raises(CommandError, match="No such file"):
        machine.check("cat", "/nothing")
    with pytest.raises(CommandError, match="No such file"):
        machine.check("no-such-program")


def test_a_user_has_a_login_of_his_own(machine: Machine) -> None:
    out = machine.check("bash", "-c", "id -un; systemctl --user is-active default.target", user=USER)
    assert out.split() == [USER, "active"]


def test_a_command_that_hangs_is_ended_and_the_next_one_runs(machine: Machine) -> None:
    assert machine.run("sleep", "1000", timeout_s=1).exit_code is None
    assert machine.check("echo", "alive") == "alive\n"


def test_a_machine_that_dies_shows_its_console(machine: Machine) -> None:
    """Last in this file: there is no machine afterwards."""
    with pytest.raises(MachineError, match=r"(?s)has ended.*farewell"):
        machine.run("bash", "-c", POWER_OFF)
