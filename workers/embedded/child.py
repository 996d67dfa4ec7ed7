"""Stand-in that becomes a child process: tie it to the launcher's life, take on an identity, then exec the program.

Run as a script, standard library only: `python -I -S child.py PARENT_PID DEATH_SIGNAL IDENTITY PROGRAM ARG…`.
A script and not a `preexec_fn`, because forking Python code out of a process with threads may deadlock.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000
INNER_ID = 1
NOBODY = 65534


def main(argv: list[str]) -> None:
    """Become the program; never returns but by an OSError that the interpreter prints."""
    parent, death_signal, identity, *program = argv
    libc = ctypes.CDLL(None, use_errno=True)
    if identity == "userns":
        _enter_user_namespace(libc)
    elif identity == "nobody":
        _become_nobody()
    # After the change of identity: the kernel clears the death signal when credentials change.
    _check(libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0), "prctl")
    if os.getppid() != int(parent):
        sys.exit("the launcher ended before its child had started")
    os.execv(program[0], program)


def _enter_user_namespace(libc: ctypes.CDLL) -> None:
    """Root outside, user 1 inside: PostgreSQL refuses to run as user 0, and files still belong to root."""
    uid, gid = os.geteuid(), os.getegid()
    _check(libc.unshare(CLONE_NEWUSER), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INNER_ID} {uid} 1")
    _write("/proc/self/gid_map", f"{INNER_ID} {gid} 1")


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _check(result: int, call: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


if __name__ == "__main__":
    main(sys.argv[1:])
