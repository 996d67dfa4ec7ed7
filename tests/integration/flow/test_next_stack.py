"""Where the pixels of the chosen series are no chest volume, the next one is read: on a real database, from real files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom.dataset import FileDataset
from pydicom.encaps import encapsulate
from pydicom.uid import UID
from sqlalchemy import text

from pipeline.dicom.archive import FileArchive
from pipeline.drafting.fake import FakeDrafter
from pipeline.encoder.prepare import Preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.errors import ModelMissing, Permanent, ServiceUnavailable, UnreadableDicom, Unsupported
from pipeline.export.markdown import series_markdown
from pipeline.flow.draft import draft
from pipeline.flow.encode import Encoding, encode
from pipeline.model import Features, Instance, RejectedImage, Rejection
from pipeline.ports import Encoder
from pipeline.store import operator
from pipeline.store.session import PgStore
from pipeline.store.shown import shown
from tests.builders import Bell, ct_slice, write
from tests.chests import chest
from tests.integration.flow.test_drafting import RETRY, Clock, drafting
from tests.integration.flow.test_encoding import CountingEncoder
from tests.integration.store.rows import ME, OTHER, count, expire, one, send
from tests.integration.store.test_series_rules import assembled, slices
from tests.unit.encoder.test_series import Counting

NO_HU = Unsupported("RescaleType 为 PCT，不是 HU 值")
FIRST, SECOND, THIRD = "/02", "/03", "/04"  # series as `slices` makes them: part of their files' paths
JOB = "SELECT state, attempts, reason, series_chosen, series_refused, series_scores, features_path, files FROM jobs ORDER BY revision DESC LIMIT 1"


@dataclass
class PickyEncoder(CountingEncoder):
    """Refuses series by part of their paths; remembers the first file's series of every study that it was given."""

    refuses: dict[str, Exception] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)

    def encode(self, paths: Sequence[Path]) -> Features:
        self.given.append(f"/{paths[0].name[:2]}")
        for part, error in self.refuses.items():
            if part in str(paths[0]):
                raise error
        return super().encode(paths)


@pytest.fixture
def archive(tmp_path: Path) -> FileArchive:
    return FileArchive(tmp_path / "archive", free_floor_bytes=0, fsync=False)


def ready(store: PgStore, series: int = 3) -> None:
    """A study of so many soft series, each thicker than the one before it."""
    for number in range(2, 2 + series):
        found = slices(number, "Soft", "B31f")
        named = [replace(one.instance, path=f"aa/{one.instance.sha256}.dcm") for one in found]
        send(store, *(replace(one, thickness_mm=float(number), instance=instance) for one, instance in zip(found, named, strict=True)))
    assembled(store)


def step(store: PgStore, archive: FileArchive, encoder: Encoder) -> int:
    return encode(Encoding(store, archive, encoder, Bell(), Clock(), RETRY), 4, ME)


def job(store: PgStore) -> dict[str, Any]:
    return one(store, JOB)


def why(store: PgStore) -> dict[str, str]:
    """Each stack's refusal by its series."""
    return {row["uid"]: row["refusal"] for row in job(store)["series_scores"]}


def test_the_next_best_series_is_read_and_the_first_is_kept_with_its_reason(store: PgStore, archive: FileArchive) -> None:
    ready(store)
    encoder = PickyEncoder(refuses={FIRST: NO_HU})
    step(store, archive, encoder)
    row = job(store)
    assert (encoder.given, row["state"], row["attempts"], row["reason"]) == ([FIRST, SECOND], "encoded", 0, None)
    assert (row["series_chosen"], {path[2:5] for path in row["files"]}) == (["1.2.3.3"], {SECOND})
    assert row["series_refused"][0] == ["1.2.3.2", "评分在前，但未能读取：RescaleType 为 PCT，不是 HU 值"]
    assert row["series_refused"][1][0] == "1.2.3.4"
    assert why(store)["1.2.3.3"] == ""
    assert why(store)["1.2.3.4"].startswith("已选用更合适的图像")
    assert one(store, "SELECT detail->>'passed' AS n FROM audit WHERE action = 'encode'")["n"] == "1"


def test_a_reader_sees_that_another_series_was_read_and_why(store: PgStore, archive: FileArchive) -> None:
    ready(store)
    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU}))
    draft(drafting(store, FakeDrafter(), flags=["第 9 层后疑缺 2 层"]), 4, ME)
    flags = one(store, "SELECT array_agg(message ORDER BY position) AS told FROM draft_flags WHERE rule IN ('series', 'image')")["told"]
    assert flags == [
        "序列：未按评分首选读取：第 2 序列未能读取（RescaleType 为 PCT，不是 HU 值）；改读第 3 序列，请核对原图",
        "影像：第 9 层后疑缺 2 层",
    ]
    with store.begin() as work:
        seen = shown(work.session, one(store, "SELECT id FROM drafts")["id"])
    assert seen["series"]["chosen"] == ["1.2.3.3"]
    assert seen["series"]["refused"][0] == {"uid": "1.2.3.2", "reason": "评分在前，但未能读取：RescaleType 为 PCT，不是 HU 值"}
    assert "评分在前，但未能读取" in series_markdown(seen["series"])


def test_without_a_refusal_nothing_is_flagged(store: PgStore, archive: FileArchive) -> None:
    ready(store)
    encoder = PickyEncoder()
    step(store, archive, encoder)
    draft(drafting(store, FakeDrafter()), 4, ME)
    assert (encoder.given, job(store)["series_chosen"]) == ([FIRST], ["1.2.3.2"])
    assert one(store, "SELECT count(*) AS n FROM draft_flags WHERE rule = 'series'")["n"] == 0


def test_three_are_tried_and_then_the_job_ends_with_every_reason(store: PgStore, archive: FileArchive) -> None:
    ready(store, 4)
    encoder = PickyEncoder(refuses={"/0": NO_HU})
    step(store, archive, encoder)
    row = job(store)
    assert (encoder.given, row["state"], row["features_path"]) == ([FIRST, SECOND, THIRD], "unsupported", None)
    assert row["reason"] == "；".join(f"第 {number} 序列：{NO_HU}" for number in (2, 3, 4))


def test_one_that_could_be_mended_makes_the_job_failed(store: PgStore, archive: FileArchive) -> None:
    ready(store, 2)
    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU, SECOND: Permanent("pixels in transfer syntax 'X' cannot be decoded here")}))
    assert job(store)["state"] == "failed"
    assert "transfer syntax 'X'" in job(store)["reason"]


@pytest.mark.parametrize("error", [ServiceUnavailable("the GPU is away"), ModelMissing("no weights")])
def test_a_fault_that_is_not_of_the_images_never_changes_the_series(store: PgStore, archive: FileArchive, error: Exception) -> None:
    ready(store)
    encoder = PickyEncoder(refuses={FIRST: error})
    encode(Encoding(store, archive, encoder, Bell(), Clock(), RETRY), 1, ME)
    assert (encoder.given, job(store)["series_chosen"]) == ([FIRST], ["1.2.3.2"])
    assert job(store)["state"] == ("ready" if isinstance(error, ServiceUnavailable) else "failed")


def test_an_archive_that_cannot_be_read_never_changes_the_series(store: PgStore, archive: FileArchive) -> None:
    ready(store)
    gone = UnreadableDicom("the file cannot be read (OSError)")
    gone.__cause__ = OSError("stale handle")
    encoder = PickyEncoder(refuses={FIRST: gone})
    step(store, archive, encoder)
    assert (encoder.given, job(store)["state"], job(store)["reason"]) == ([FIRST], "failed", str(gone))


def test_a_try_that_is_repeated_reads_the_same_series_and_uses_its_features(store: PgStore, archive: FileArchive) -> None:
    ready(store)

    def steal() -> None:
        with store.begin() as work:
            work.session.execute(text("UPDATE jobs SET lease_owner = 'other'"))

    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU}, before=steal))
    assert (job(store)["state"], job(store)["series_chosen"]) == ("encoding", ["1.2.3.2"])
    expire(store, "jobs")
    with store.begin() as work:
        work.studies.reclaim_expired(3)
    again = PickyEncoder(refuses={FIRST: NO_HU})
    step(store, archive, again)
    assert (again.given, job(store)["series_chosen"]) == ([FIRST], ["1.2.3.3"])
    assert one(store, "SELECT detail->>'reused' AS said FROM audit WHERE action = 'encode'")["said"] == "yes"


def test_a_retry_begins_with_the_best_again_and_reads_it_where_it_can_be_read_now(store: PgStore, archive: FileArchive) -> None:
    ready(store)
    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU}))
    before, told = job(store), ("series_chosen", "files", "series_refused", "series_scores")
    draft(drafting(store, FakeDrafter(texts=["not json"])), 4, ME)
    assert job(store)["state"] == "failed"
    operator.retry(store, "1.2.3")
    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU}))
    assert {name: job(store)[name] for name in told} == {name: before[name] for name in told}
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET state = 'ready', due_at = now()"))
    step(store, archive, PickyEncoder())
    assert (job(store)["series_chosen"], why(store)["1.2.3.2"]) == (["1.2.3.2"], "")
    assert why(store)["1.2.3.3"].startswith("已选用更合适的图像")


def test_a_study_assembled_again_without_a_change_keeps_its_job(store: PgStore, archive: FileArchive) -> None:
    ready(store)
    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU}))
    operator.hold(store, "1.2.3")
    operator.release(store, "1.2.3")
    assert assembled(store)["revision"] == 1
    assert job(store)["series_chosen"] == ["1.2.3.3"]


def test_what_is_fallen_back_on_is_never_read_with_an_image_that_was_taken_back_meanwhile(store: PgStore, archive: FileArchive) -> None:
    ready(store)

    taken = RejectedImage("1.2.3", one(store, "SELECT min(sop_uid) AS uid FROM instances WHERE path LIKE 'aa/03%'")["uid"])
    note = Rejection("1.2.3.77", "113001", "Rejected for Quality Reasons", "1.2.3", (taken,))

    def take_back() -> None:
        with store.begin() as work:
            work.studies.reject("1.2.3", note)
        assembled(store)

    step(store, archive, PickyEncoder(refuses={FIRST: NO_HU}, before=take_back))
    assert (job(store)["state"], job(store)["series_chosen"]) == ("encoding", ["1.2.3.2"])
    expire(store, "jobs")
    with store.begin() as work:
        work.studies.reclaim_expired(3)
    encode(Encoding(store, archive, PickyEncoder(refuses={FIRST: NO_HU}), Bell(), Clock(), RETRY), 4, OTHER)
    assert (job(store)["series_chosen"], len(job(store)["files"]), count(store, "jobs")) == (["1.2.3.3"], 11, 1)


def chest_slices(series: str, number: int, thickness_mm: float) -> list[FileDataset]:
    """A phantom's chest as CT images."""
    volume, _ = chest(spacing_mm=(8.0, 4.0, 4.0))
    stored = (volume.hu + 1024).astype(np.int16)  # (Z, Y, X)
    facts = {"spacing_mm": (4.0, 4.0), "thickness_mm": thickness_mm, "SeriesNumber": number}
    return [
        ct_slice(series=series, z_mm=8.0 * z, number=z + 1, pixels=image, **facts)  # type: ignore[arg-type]  # DICOM keywords
        for z, image in enumerate(stored)
    ]


def filed(store: PgStore, archive: FileArchive, name: str, datasets: Sequence[FileDataset]) -> None:
    """As the listener leaves them: files in the archive, rows in the database."""
    number, thickness_mm = int(datasets[0].SeriesNumber), float(datasets[0].SliceThickness)
    paths = write(archive.path(name), datasets)
    for header, ds, path in zip(slices(number, "Soft", "B31f") * len(paths), datasets, paths, strict=False):
        made = Instance(
            **{part: getattr(header.instance, part) for part in ("sop_class", "study_uid", "series_uid", "modality", "size_bytes", "image_type")},
            sop_uid=str(ds.SOPInstanceUID),
            sha256=f"{number:02d}{int(ds.InstanceNumber):062d}",
            transfer_syntax=str(ds.file_meta.TransferSyntaxUID),
            path=f"{name}/{path.name}",
            instance_number=int(ds.InstanceNumber),
            rows=int(ds.Rows),
            columns=int(ds.Columns),
            position_mm=(0.0, 0.0, float(ds.ImagePositionPatient[2])),
            orientation=header.instance.orientation,
        )
        send(store, replace(header, thickness_mm=thickness_mm, instance=made))


def _perfusion(ds: FileDataset) -> None:
    ds.RescaleType = "PCT"


def _undecodable(ds: FileDataset) -> None:
    ds.file_meta.TransferSyntaxUID = UID("1.2.840.10008.1.2.4.100")
    ds.PixelData = encapsulate([b"\0" * 2000])


def _without_lungs(ds: FileDataset) -> None:
    ds.PixelData = np.full((ds.Rows, ds.Columns), 1064, np.int16).tobytes()


def _cut_short(ds: FileDataset) -> None:
    ds.PixelData = ds.PixelData[:1000]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(_perfusion, "RescaleType 为 PCT"), (_undecodable, "MPEG2"), (_without_lungs, "未找到双肺"), (_cut_short, "cut short")],
)
def test_what_only_the_pixels_tell_leads_to_the_good_series_beside_it(
    store: PgStore, archive: FileArchive, spoil: Callable[[FileDataset], None], reason: str
) -> None:
    best = chest_slices("thin", 2, 1.0)
    for ds in best:
        spoil(ds)
    filed(store, archive, "thin", best)
    filed(store, archive, "thick", chest_slices("thick", 3, 5.0))
    assembled(store)
    assert job(store)["series_chosen"] == ["1.2.3.2"]
    step(store, archive, SeriesEncoder(Counting(), Preparing(denoise="never")))
    draft(drafting(store, FakeDrafter()), 4, ME)
    assert (job(store)["state"], job(store)["series_chosen"], count(store, "drafts")) == ("drafted", ["1.2.3.3"], 1)
    message = one(store, "SELECT message FROM draft_flags WHERE rule = 'series'")["message"]
    assert reason in message
    assert message.endswith("改读第 3 序列，请核对原图")
