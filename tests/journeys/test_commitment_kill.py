"""kill −9 of every listener process right after a storage commitment was accepted: it is reported after the restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
from pydicom.uid import generate_uid

from pipeline.dicom.send import send
from pipeline.store import schema
from tests.builders import ct_slice, write
from tests.integration.dicom.conftest import CT
from tests.integration.dicom.services import AET, Modality, action, ask
from tests.journeys.conftest import eventually
from tests.listener_process import listening
from workers.embedded.ports import free_port


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql.encode()).fetchall()


def test_an_accepted_commitment_outlives_the_listener(tmp_path: Path, database_url: str, redis_url: str) -> None:
    schema.migrate(database_url)
    images, hears_at, transaction = [ct_slice(z_mm=float(z), number=z) for z in range(3)], free_port(), generate_uid()
    references = [(CT, str(image.SOPInstanceUID)) for image in images]
    peers = json.dumps([{"aet": AET, "network": "127.0.0.1", "report_to": f"127.0.0.1:{hears_at}"}, {"network": "127.0.0.1"}])
    modality = Modality(answer=0x0110)  # refuses whatever comes before the kill
    with listening(tmp_path / "site", database_url, redis_url, CTREPORT_ACCESS_PEERS=peers, CTREPORT_COMMIT_RETRY_DELAY_S="1") as site:
        assert send(write(tmp_path / "sent", images), "127.0.0.1", site.port, "CTREPORT").succeeded == 3
        assoc = modality.associate(site.port)
        assert ask(assoc, action(transaction, references)) == 0x0000
        site.kill()
        assert rows(database_url, "SELECT state, jsonb_array_length(requested) FROM commitments") == [("waiting", 3)]
        rows(database_url, "UPDATE commitments SET lease_until = now(), due_at = now() RETURNING 1")  # its time has passed
        modality.answer = 0x0000
        with modality.listening(hears_at):
            site.start()
            eventually(lambda: rows(database_url, "SELECT state, failures FROM commitments") == [("reported", 0)], 30.0)
    assert modality.reports[-1].transaction_uid == transaction
    assert modality.reports[-1].committed == set(references)
