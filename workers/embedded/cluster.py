"""The folder of one PostgreSQL cluster: made once, whole or not at all, with a password of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

from pipeline.errors import Permanent
from workers.embedded import identity as who
from workers.embedded.processes import Identity, end_all_in, wrapped

USER = "app"
INITDB_TIMEOUT_S = 120.0
BUILTIN_LOCALE_SINCE = 17


def made_by(cluster: Path) -> int | None:
    """Major version of PostgreSQL that made the cluster, None when there is none yet."""
    version = cluster / "PG_VERSION"
    return int(version.read_text(encoding="ascii").partition(".")[0]) if cluster.exists() else None


def password_of(folder: Path) -> str:
    """The password of the cluster in `folder`."""
    return (folder / "password").read_text(encoding="ascii").strip()


def create(folder: Path, major: int, programs: Path, identity: Identity) -> None:
    """Make `folder/cluster` under another name and rename it, so that an interrupted run leaves nothing that counts as a cluster."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = folder / "cluster.new"
    end_all_in(unfinished, ["initdb", "postgres"], [])
    shutil.rmtree(unfinished, ignore_errors=True)
    password = _write_password(folder)
    who.give(identity, folder, password)
    initdb = [str(programs / "initdb"), "-D", str(unfinished), "--pwfile", str(password), *initdb_options(major)]
    if (reason := _fails(wrapped(initdb, identity, signal.SIGKILL))) is not None:
        raise Permanent(f"initdb of {programs} could not create a cluster in {folder}: {reason}; put that right and start again.")
    unfinished.rename(folder / "cluster")
    _sync(folder)


def _fails(command: list[str]) -> str | None:
    """Run initdb; the line of its output that says what went wrong, None when nothing did."""
    quiet = subprocess.DEVNULL
    try:
        ran = subprocess.run(command, stdin=quiet, capture_output=True, text=True, env=plain_environment(), timeout=INITDB_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {INITDB_TIMEOUT_S:.0f} s"
    if ran.returncode == 0:
        return None
    return next((line for line in ran.stderr.splitlines() if "error" in line), f"exit code {ran.returncode}")


def initdb_options(major: int) -> list[str]:
    """UTF-8 with a collation that does not change with the operating system, passwords everywhere, checksums on.

    The character type stays C.UTF-8: with plain C, pg_trgm takes Chinese characters for punctuation.
    """
    locale = ["--locale=C.UTF-8"]
    if major >= BUILTIN_LOCALE_SINCE:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["-U", USER, "-E", "UTF8", *locale, "-A", "scram-sha-256", "-k", "--no-instructions"]


def plain_environment() -> dict[str, str]:
    """Our environment without what would redirect PostgreSQL: PG* variables and the user's locale."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


def _write_password(folder: Path) -> Path:
    path = folder / "password"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(24) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return path


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
