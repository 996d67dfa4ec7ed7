"""Which broker a site uses, and where its archive is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.dicom.archive import FileArchive
from pipeline.dicom.object_archive import ObjectArchive
from pipeline.model import Step
from pipeline.settings import RabbitSettings, Settings, settings
from workers import broker, wiring
from workers.app import QUEUES, create_app

RABBIT, REDIS = "amqp://user:secret@127.0.0.1:1//", "redis://:secret@127.0.0.1:1/0"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """The process's own settings and archive, as the test sets the environment."""
    monkeypatch.setenv("CTREPORT_DATA", str(tmp_path))
    settings.cache_clear()
    wiring.archive.cache_clear()
    yield monkeypatch
    settings.cache_clear()
    wiring.archive.cache_clear()


def test_rabbitmqs_queues_are_quorum_queues_of_limited_length_and_redis_has_plain_ones() -> None:
    rabbit = broker.queues(RABBIT, [step.value for step in QUEUES])
    assert [queue.name for queue in rabbit] == ["assemble", "encode", "draft", "deliver", "maintenance"]
    assert all(queue.queue_arguments == {"x-queue-type": "quorum", "x-max-length": broker.LONGEST} for queue in rabbit)
    assert all(queue.queue_arguments is None for queue in broker.queues(REDIS, [Step.ENCODE.value]))


@pytest.mark.parametrize(("url", "option"), [(RABBIT, "confirm_publish"), (REDIS, "visibility_timeout")])
def test_each_broker_gets_its_own_options_and_no_other(url: str, option: str) -> None:
    conf = create_app(url, visibility_timeout_s=900).conf
    assert option in conf.broker_transport_options
    assert not ({"confirm_publish", "visibility_timeout"} - {option}) & set(conf.broker_transport_options)
    assert (conf.task_acks_late, conf.task_reject_on_worker_lost, conf.worker_prefetch_multiplier) == (True, True, 1)


def test_rabbitmq_goes_before_redis_and_either_makes_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_REDIS_URL", REDIS)
    assert (Settings().broker_url or pytest.fail("no broker")).get_secret_value() == REDIS
    monkeypatch.setenv("CTREPORT_RABBITMQ_URL", RABBIT)
    assert (Settings().broker_url or pytest.fail("no broker")).get_secret_value() == RABBIT
    monkeypatch.delenv("CTREPORT_REDIS_URL")
    assert Settings().mode == "site"


def test_a_redis_url_is_no_rabbitmq_and_the_refusal_keeps_the_password() -> None:
    with pytest.raises(ValidationError, match="does not begin with amqp://") as told:
        RabbitSettings.model_validate({"url": REDIS})
    assert "secret" not in str(told.value)


def test_the_archive_is_a_folder_a_shared_folder_or_an_object_store(site: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert wiring.archive().path("objects/aa/x.dcm") == tmp_path / "archive" / "objects" / "aa" / "x.dcm"
    for url, kind in ((f"file://{tmp_path / 'shared'}", FileArchive), ("s3://bucket/site", ObjectArchive)):
        site.setenv("CTREPORT_ARCHIVE_URL", url)
        settings.cache_clear()
        wiring.archive.cache_clear()
        assert type(wiring.archive()) is kind
    assert settings().archive_root == tmp_path / "archive", "ledger and copies stay on this machine"


def test_a_shared_folder_holds_the_images_and_the_ledger_stays_here(site: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site.setenv("CTREPORT_ARCHIVE_URL", f"file://{tmp_path / 'shared'}")
    settings.cache_clear()
    assert wiring.archive().path("objects/aa/x.dcm").is_relative_to(tmp_path / "shared")
