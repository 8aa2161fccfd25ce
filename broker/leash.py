"""Becomes another program that ends with its parent; run as a script, in place of that program.

`leash.py PARENT_PID USER_ID GROUP_ID PROGRAM ARGUMENT...`. The kernel forgets the wish to end with the parent when
a process changes its user, so the user is changed first, here.
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int, user: int, group: int, command: list[str]) -> None:
    """Does not return, unless the parent died meanwhile."""
    if user != os.geteuid():
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - there is no shell, and none is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
