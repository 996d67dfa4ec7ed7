"""A tiny receive benchmark with the real programs: figures are there and right in number; seconds are nobody's business here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydicom import dcmread

from pipeline.evaluation.receive_files import Pool
from pipeline.evaluation.receive_load import Load, absent, send
from pipeline.evaluation.receive_peers import Contender, Net, Orthanc, StoreScp
from workers.commands import bench
from workers.commands.bench_listener import VARIANTS, OwnReceiver
from workers.embedded.ports import free_port, is_listening

NET = Net(free_port, is_listening)
KEYS = {
    *("what", "associations", "object", "images", "sender_tcp_nodelay", "receiver_tcp_nodelay", "images_per_s", "mb_per_s", "cpu_s_per_1000"),
    *("cpu_s_per_1000_with_database", "peak_mb", "peak_pss_mb", "ratio_to_orthanc", "ratio_to_storescp", "ratio_to_fork", "rounds", "spread"),
}

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent())


@pytest.mark.timeout(300)
def test_ours_and_the_peers_take_the_same_images_and_none_is_lost(tmp_path: Path) -> None:
    with bench._stack_of_listeners(tmp_path) as (folder, ours):
        result = bench.measured([Load("small", 2, 20, True, 1)], ours, folder)
        cut = _cut_listener(ours, folder)
    rows = {row["what"]: row for row in result["rows"]}
    expected = {one.what for one in (*ours, StoreScp(NET, False, True), StoreScp(NET, True, True), Orthanc(NET, True)) if not one.absent()}
    assert rows.keys() == expected
    assert "ctreport" in expected
    for row in rows.values():
        assert row.keys() == KEYS, row.get("failed")
        assert (row["rounds"], row["images"], row["associations"]) == (1, 20, 2)
        assert row["images_per_s"] > 0
        assert row["mb_per_s"] == pytest.approx(row["images_per_s"] * 0.525, rel=0.05)
        assert row["peak_mb"] > 1
    assert rows["ctreport"]["cpu_s_per_1000_with_database"] >= rows["ctreport"]["cpu_s_per_1000"] > 0
    assert rows["dcmtk storescp"]["ratio_to_storescp"] == 1
    assert {"machine", "date", "commit", "versions", "rows", "targets"} == result.keys()
    assert cut == "3 images were answered with Success and 1 have no row in the database"
    assert list(tmp_path.iterdir()) == [], "everything is gone afterwards"


def _cut_listener(ours: list[Contender], folder: Path) -> str:
    """What the check says when it is told of one image more than was sent."""
    sent, (more,) = Pool(folder / "cut").files("small", 0, 2), Pool(folder / "more").files("small", 0, 1)
    place = folder / "cut-round"
    place.mkdir()
    default = next(one for one in ours if one.what == "ctreport")
    with default.running(place) as receiver:
        assert send([sent], receiver.port, place, nodelay=True).succeeded == 2
        receiver.stop()
        assert isinstance(receiver, OwnReceiver)
        assert receiver.lost(sent) == ""
        _flip_last_byte(receiver.archive, sent[0])
        assert receiver.lost(sent) == "1 of 2 archived files differ from what was sent"
        return receiver.lost([*sent, more])


def _flip_last_byte(archive: Path, sent: Path) -> None:
    uid = str(dcmread(sent, stop_before_pixels=True).SOPInstanceUID).encode()
    path = next(path for path in archive.rglob("*.dcm") if uid in path.read_bytes())
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")


@pytest.mark.parametrize("nodelay", [True, False])
@pytest.mark.parametrize("fork", [True, False])
def test_storescp_keeps_what_it_is_sent_and_is_gone_afterwards(tmp_path: Path, fork: bool, nodelay: bool) -> None:
    files = Pool(tmp_path / "files").shares("small", 2, 4)
    folder = tmp_path / "round"
    folder.mkdir()
    with StoreScp(NET, fork, nodelay).running(folder) as receiver:
        assert send(files, receiver.port, folder, nodelay=True).succeeded == 4
        receiver.stop()
        assert receiver.lost([path for share in files for path in share]) == ""
        assert receiver.lost(files[0]) == "2 images were answered with Success and 4 are there"
    assert not is_listening(receiver.port)


@pytest.mark.skipif(bool(Orthanc(NET, True).absent()), reason=Orthanc(NET, True).absent())
def test_orthanc_has_indexed_what_it_acknowledged_when_it_is_killed(tmp_path: Path) -> None:
    files = Pool(tmp_path / "files").shares("small", 1, 4)
    folder = tmp_path / "round"
    folder.mkdir()
    with Orthanc(NET, True).running(folder) as receiver:
        assert send(files, receiver.port, folder, nodelay=True).succeeded == 4
        receiver.stop()
        assert receiver.lost(files[0]) == ""
    assert not is_listening(receiver.port)


def test_the_variants_have_names_that_the_targets_know() -> None:
    assert list(VARIANTS) == ["ctreport", "ctreport no fsync", "ctreport fast"]
