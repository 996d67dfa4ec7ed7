"""The scrubber keeps patients, UIDs, report text and passwords out of every log line."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import log

UID = "1.2.840.113619.2.55.3.604688119.969.1268071029.320"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    log.configure("INFO", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def test_a_line_is_one_json_object_with_level_time_and_bound_values(lines: io.StringIO) -> None:
    log.get("t").info("encode", job_id="abc", seconds=1.5)
    line = json.loads(lines.getvalue())
    assert (line["event"], line["job_id"], line["seconds"], line["level"]) == ("encode", "abc", 1.5, "info")


def test_patient_fields_uids_report_text_and_passwords_never_reach_the_line(lines: io.StringIO) -> None:
    log.get("t").info(
        f"stored {UID}", patient_name="Zhang^San", nested={"indication": "x", "note": "右肺上叶结节"}, url="redis://:hunter2@127.0.0.1/0", many=[UID]
    )
    written = lines.getvalue()
    for secret in (UID, "Zhang", "右肺", "hunter2"):
        assert secret not in written


def test_an_exception_message_is_scrubbed_too(lines: io.StringIO) -> None:
    try:
        raise ValueError(f"bad {UID} of 张三")
    except ValueError:
        log.get("t").exception("failed")
    assert UID not in lines.getvalue()
    assert "张三" not in lines.getvalue()
    assert "ValueError" in lines.getvalue()


def test_lines_of_other_libraries_pass_the_same_scrubber(lines: io.StringIO) -> None:
    logging.getLogger("pynetdicom").warning("instance %s of %s", UID, "李四")
    line = json.loads(lines.getvalue())
    assert line["event"] == "instance <uid> of <han>"


@given(st.text(alphabet="张三李四王五右肺上叶", min_size=1), st.text())
def test_no_han_character_survives(han: str, around: str) -> None:
    assert not set(log.scrub_text(around + han + around)) & set(han)
