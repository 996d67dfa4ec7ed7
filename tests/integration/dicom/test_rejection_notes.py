"""Rejection notes over the wire: the answer is Success once the study is withdrawn, and a note before its images bars them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydicom.dataset import Dataset
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

from pipeline.dicom.archive import FileArchive
from pipeline.dicom.headers import read_header
from pipeline.dicom.ledger import FileLedger
from pipeline.dicom.listener import Listener
from pipeline.dicom.rejection import read_rejection
from pipeline.evidence import Patience
from pipeline.flow.receive import Receiving
from pipeline.flow.reject import KEY_OBJECT, Rejecting
from pipeline.model import Step
from pipeline.settings import ListenerSettings
from pipeline.store.session import PgStore
from tests.builders import Bell, ct_series
from tests.integration.dicom.conftest import CT, Site, associate, store_raw
from tests.integration.store.rows import ME
from tests.rejection_notes import encoded, note

AT_ONCE = Patience(0.0, 0.0, 0.0, 3600.0)


@pytest.fixture
def acting(tmp_path: Path, url: str) -> Iterator[Site]:
    """A listener that acts on rejection notes."""
    root = tmp_path / "archive"
    archive, bell, store, ledger = FileArchive(root, 0), Bell(), PgStore(url, connect_timeout_s=2), FileLedger(root / "ledger", "listener")
    receiving = Receiving(store, archive, ledger, read_header, Rejecting(store, bell, read_rejection))
    listener = Listener(ListenerSettings(port=0), receiving, archive, store, bell)
    listener.start()
    yield Site(root, url, store, archive, bell, listener)
    listener.stop(grace_s=1.0)
    ledger.close()
    store.dispose()


def send(site: Site, slices: Sequence[Dataset], *notes: Dataset, first: bool = False) -> set[int]:
    """Images and notes over one association; the statuses that came back."""
    assoc = associate(site.port, (CT, ExplicitVRLittleEndian), (KEY_OBJECT, ImplicitVRLittleEndian))
    images = [(encoded(ds, ExplicitVRLittleEndian), str(ds.SOPInstanceUID), CT) for ds in slices]
    said = [(encoded(ds), str(ds.SOPInstanceUID), KEY_OBJECT) for ds in notes]
    statuses = {store_raw(assoc, *one) for one in (said + images if first else images + said)}
    assoc.release()
    return statuses


def test_a_note_over_all_images_withdraws_the_study_before_its_sender_hears_success(acting: Site) -> None:
    slices = ct_series(4)
    taken = note(str(slices[0].StudyInstanceUID), [str(ds.SOPInstanceUID) for ds in slices])
    assert send(acting, slices, taken) == {0x0000}
    assert acting.rows("SELECT state FROM studies") == [("withdrawn",)]
    assert Step.DELIVER in acting.bell.rung
    assert len(acting.files("objects")) == 5


def test_the_note_sent_again_is_success_and_changes_nothing(acting: Site) -> None:
    slices = ct_series(4)
    taken = note(str(slices[0].StudyInstanceUID), [str(ds.SOPInstanceUID) for ds in slices])
    send(acting, slices, taken)
    assert send(acting, [], taken) == {0x0000}
    assert acting.rows("SELECT count(*) FROM rejections") == [(4,)]
    assert acting.rows("SELECT count(*) FROM audit WHERE action = 'reject'") == [(1,)]


def test_a_note_before_its_images_bars_them_when_they_come(acting: Site) -> None:
    slices = ct_series(4)
    taken = note(str(slices[0].StudyInstanceUID), [str(slices[1].SOPInstanceUID)])
    assert send(acting, slices, taken, first=True) == {0x0000}
    acting.rows("SELECT 1")
    with acting.store.begin() as work:
        (study,) = work.studies.claim_quiet(AT_ONCE, 10, ME)
    images = [image for series in study.series for image in series.instances if image.rows]
    assert [image.instance_number for image in images] == [1, 3, 4]
    assert acting.rows("SELECT count(*) FROM instances WHERE modality = 'CT'") == [(4,)]
