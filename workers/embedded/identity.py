"""Who PostgreSQL runs as. It refuses to run as root, so root becomes user 1 of a user namespace, or `nobody`; nothing else is touched."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from pipeline.errors import Permanent
from workers.embedded.child import NOBODY
from workers.embedded.processes import Identity, wrapped

WAY_OUT = "run this command as a normal user, or set CTREPORT_DATABASE_URL to a server of yours"


def choose(folder: Path) -> Identity:
    """The identity for a data folder (which may not exist yet); Permanent with a sentence when there is none."""
    owner = folder.stat().st_uid if folder.exists() else None
    me = os.geteuid()
    if me != 0:
        return Identity.SELF if owner in (None, me) else _refuse_owner(folder, owner)
    if owner not in (None, 0, NOBODY):
        return _refuse_owner(folder, owner)
    if owner != NOBODY and namespace_allowed():
        return Identity.USERNS
    if (wall := closed_to_others(folder)) is not None:
        raise Permanent(
            f"PostgreSQL refuses to run as root, this machine allows no user namespace, and user nobody cannot enter {wall}; "
            f"choose a data folder that others may enter, {WAY_OUT}."
        )
    return Identity.NOBODY


def needs_nobody() -> bool:
    """True when we are root and no user namespace is to be had."""
    return os.geteuid() == 0 and not namespace_allowed()


def namespace_allowed() -> bool:
    """True when the kernel and the container let root make a user namespace."""
    probe = wrapped(["/bin/true"], Identity.USERNS, signal.SIGKILL)
    return subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def closed_to_others(folder: Path) -> Path | None:
    """The first folder above `folder` that a stranger may not enter, from the root down; None when the way is open."""
    for parent in reversed(folder.resolve().parents):
        if parent.exists() and not parent.stat().st_mode & 0o001:
            return parent
    return None


def give(identity: Identity, *paths: Path) -> None:
    """Let `nobody` own what it must read and write; the other identities own it already."""
    if identity is Identity.NOBODY:
        for path in paths:
            os.chown(path, NOBODY, NOBODY)


def _refuse_owner(folder: Path, owner: int | None) -> Identity:
    raise Permanent(f"The data folder {folder} belongs to user {owner}, not to user {os.geteuid()}; run as its owner, or choose another data folder.")
