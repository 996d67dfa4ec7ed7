"""The stack as root and as a normal user, touching nothing but its own folder."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import Permanent
from tests.integration.platform.launching import environment, launched, put_word, words
from workers.embedded import identity
from workers.embedded.binaries import postgres_majors
from workers.embedded.child import NOBODY
from workers.embedded.postgres import Postgres
from workers.embedded.processes import Identity, wrapped

AS_NOBODY = wrapped([], Identity.NOBODY, signal.SIGKILL)
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _rights(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """(mode, uid, gid) of a folder and of all that lie above it."""
    return {path: (path.stat().st_mode, path.stat().st_uid, path.stat().st_gid) for path in [folder, *folder.parents]}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter (pytest's own are closed)."""
    folder = Path(tempfile.mkdtemp(prefix="ctreport-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_it_runs_under_a_closed_home_and_changes_no_rights_above_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    before = _rights(home)
    with launched(home / "data") as launcher:
        info = launcher.ready()
        put_word(info.database_url, "here")
        assert words(info.database_url) == ["here"]
    assert _rights(home) == before
    assert stat.S_IMODE((home / "data").stat().st_mode) == 0o700
    assert sorted(path.name for path in home.iterdir()) == ["data"]


@root_only
def test_it_runs_as_user_nobody_under_a_closed_home(open_folder: Path) -> None:
    python = _python_of_nobody()
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    before = _rights(home)
    with launched(home / "data", "worker", prefix=AS_NOBODY, python=python) as launcher:
        info = launcher.ready()
        put_word(info.database_url, "here")
        assert words(info.database_url) == ["here"]
        assert {Path(f"/proc/{part.pid}").stat().st_uid for part in info.parts} == {NOBODY}
    assert _rights(home) == before


@root_only
def test_it_runs_as_a_user_without_any_right_of_root_under_a_closed_home(tmp_path: Path) -> None:
    if not identity.namespace_allowed():
        pytest.skip("this machine allows no user namespace")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    before = _rights(home)
    with launched(home / "data", "worker", prefix=wrapped([], Identity.USERNS, signal.SIGKILL)) as launcher:
        info = launcher.ready()
        put_word(info.database_url, "here")
        assert words(info.database_url) == ["here"]
        assert {Path(f"/proc/{part.pid}/uid_map").read_text(encoding="ascii").split()[0] for part in info.parts} == {"1"}
    assert _rights(home) == before


@root_only
def test_without_user_namespaces_root_runs_postgres_as_nobody_and_owns_the_rest(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _needs_postgres_of_nobody()
    monkeypatch.setattr(identity, "namespace_allowed", lambda: False)
    before = _rights(open_folder)
    server = Postgres(open_folder / "postgres")
    server.start()
    try:
        assert Path(f"/proc/{server.pid}").stat().st_uid == NOBODY
        assert (open_folder / "postgres").stat().st_uid == NOBODY
    finally:
        assert server.stop()
    assert _rights(open_folder) == before
    # what nobody made stays nobody's, even once namespaces work
    monkeypatch.undo()
    assert identity.choose(server.folder) is Identity.NOBODY


@root_only
def test_without_user_namespaces_a_closed_home_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "namespace_allowed", lambda: False)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(Permanent, match=r"nobody cannot enter .*; choose a data folder .* normal user"):
        Postgres(home / "postgres").start()
    assert list(home.iterdir()) == []


@root_only
def test_a_folder_of_another_user_is_refused_with_both_users(open_folder: Path) -> None:
    os.chown(open_folder, 12345, 12345)
    with pytest.raises(Permanent, match="belongs to user 12345, not to user 0"):
        Postgres(open_folder).start()


def _python_of_nobody() -> str:
    """A Python that user nobody may start and that finds this checkout; under a closed home there is none."""
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, system):
        probe = [*AS_NOBODY, python, "-c", "import workers.local"]
        if subprocess.run(probe, env=environment(Path("/")), cwd="/", capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("user nobody can read neither this checkout nor a Python of its version")


def _needs_postgres_of_nobody() -> None:
    if next(postgres_majors(Identity.NOBODY), None) is None:
        pytest.skip("user nobody can read no PostgreSQL here")
