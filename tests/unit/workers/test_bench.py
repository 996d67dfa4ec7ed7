import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from workers.cli import app
from workers.commands import bench, bench_listener, bench_place
from workers.commands.bench_listener import VARIANTS, OwnListener
from workers.local import StackInfo

RESULT = {
    "machine": "a desk",
    "date": "2026-11-30",
    "commit": "abc",
    "versions": "none",
    "targets": [],
    "rows": [
        {"what": "ctreport", "object": "small", "associations": 1, "images": 2, "sender_tcp_nodelay": True, "receiver_tcp_nodelay": None}
        | {"images_per_s": 200.0, "mb_per_s": 105.0, "ratio_to_orthanc": 1.5, "ratio_to_storescp": None, "ratio_to_fork": None}
        | {"cpu_s_per_1000": 3.0, "cpu_s_per_1000_with_database": 4.0, "peak_mb": 150.0, "peak_pss_mb": 120.0, "spread": 0.1, "rounds": 2}
    ],
}


@pytest.fixture
def stack(tmp_path: Path) -> StackInfo:
    return StackInfo(1, 1, tmp_path, "postgresql://app:x@127.0.0.1:1/ctreport", "redis://127.0.0.1:2/0", True, {"listener": 3, "web": 4})


def test_a_variant_whose_setting_does_not_exist_says_so(stack: StackInfo) -> None:
    assert OwnListener("ctreport", {}, stack).absent() == ""
    assert OwnListener("odd", {"CTREPORT_NO_SUCH": "1"}, stack).absent() == "odd: there is no setting CTREPORT_NO_SUCH"


def test_the_default_changes_nothing() -> None:
    assert VARIANTS["ctreport"] == {}


def test_the_callers_database_archive_and_access_lists_never_reach_the_measured_listener(
    stack: StackInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CTREPORT_DATABASE_URL", "CTREPORT_ARCHIVE_ROOT", "CTREPORT_DATA", "CTREPORT_ACCESS_CALLING_AETS", "CTREPORT_TLS_CERTIFICATE"):
        monkeypatch.setenv(name, "the hospital's")
    monkeypatch.setenv("CTREPORT_LISTENER_MAX_ASSOCIATIONS", "7")
    env = OwnListener("x", {"CTREPORT_ARCHIVE_FSYNC": "false"}, stack)._environment(tmp_path, 104, "postgresql://bench")
    assert "the hospital's" not in env.values()
    assert env["CTREPORT_DATABASE_URL"] == "postgresql://bench"
    assert env["CTREPORT_ARCHIVE_ROOT"] == str(tmp_path / "archive")
    assert env["CTREPORT_LISTENER_PORT"] == "104"
    assert env["CTREPORT_LISTENER_MAX_ASSOCIATIONS"] == "7"
    assert env["CTREPORT_ARCHIVE_FSYNC"] == "false"


def test_an_earlier_result_is_shown_as_markdown_without_measuring(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(RESULT), encoding="utf-8")
    ran = CliRunner().invoke(app, ["bench", "receive", "--from", str(file), "--markdown"])
    assert ran.exit_code == 0
    assert "| ctreport | own | 200 (1.50×) |" in ran.stdout


def test_a_result_in_which_we_lost_an_image_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    lost = {**RESULT["rows"][0], "failed": ["1 image has no row"]}  # type: ignore[dict-item]  # a literal above
    file.write_text(json.dumps(RESULT | {"rows": [lost]}), encoding="utf-8")
    ran = CliRunner().invoke(app, ["bench", "receive", "--from", str(file)])
    assert ran.exit_code == 1
    assert "void: ctreport" in ran.stdout
    assert "1 image has no row" in ran.stdout


def test_data_sets_are_compared_from_the_end_of_the_file_meta(tmp_path: Path) -> None:
    def a_file(name: str, meta: bytes, data_set: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(bytes(128) + b"DICM" + b"\x02\x00\x00\x00UL\x04\x00" + len(meta).to_bytes(4, "little") + meta + data_set)
        return path

    sent = a_file("sent", b"meta", b"data set")
    assert bench_listener._same_data_set(a_file("same", b"another meta", b"data set"), sent)
    assert not bench_listener._same_data_set(a_file("other", b"meta", b"data sex"), sent)


def test_a_place_is_named_with_cores_and_file_system(tmp_path: Path) -> None:
    said = bench_place.machine(tmp_path)
    assert " cores, " in said
    assert "unknown file system" not in said
    assert bench_place.memory_bytes() > 0


def test_loads_can_be_chosen_and_an_empty_choice_is_wrong_use() -> None:
    chosen = bench._planned(False, ["small"], [1, 8])
    assert {(load.object, load.associations) for load in chosen} == {("small", 1), ("small", 8)}
    ran = CliRunner().invoke(app, ["bench", "receive", "--short", "--object", "1GB"])
    assert ran.exit_code == 2
