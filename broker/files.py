"""Files of certificates and brokers: each put in place whole, and still for whom it was given to."""

import os
import pwd
import tempfile
from pathlib import Path


def put(file: Path, content: bytes, mode: int, owner: str | None = None) -> None:
    """Put the whole file in place at once; nobody else may ever read a secret one.

    Written by root, it stays theirs who had it, such as the user of a container. What was root's, or is new, is
    given to `owner`. Raises OSError, and KeyError when there is no such user.
    """
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # with mode 0600
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            os.fchmod(opened.fileno(), mode)
        if os.geteuid() == 0 and file.exists():
            os.chown(new, file.stat().st_uid, file.stat().st_gid)
        give(new, owner)
        new.replace(file)
    except BaseException:  # a full disk: nothing half done, maybe secret, stays
        new.unlink(missing_ok=True)
        raise


def give(path: Path, owner: str | None) -> None:
    """Give a file or folder to `owner` if it is root's, and we are root."""
    if owner is not None and os.geteuid() == 0 and path.stat().st_uid == 0:
        os.chown(path, pwd.getpwnam(owner).pw_uid, -1)
