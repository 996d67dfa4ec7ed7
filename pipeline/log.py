"""structlog JSON with ids bound once, and a scrubber that keeps patients, UIDs and report text out of every line."""

from __future__ import annotations

import logging
import re
import sys
from typing import TYPE_CHECKING, TextIO

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

# Keys whose values are patient data wherever they appear.
FORBIDDEN_KEYS = frozenset(
    {"patient", "patient_id", "patient_name", "name", "birth_date", "accession", "indication", "header", "dataset", "ds"}
    | {"text", "findings_text", "impression", "advice", "report"}
    | {"study_uid", "series_uid", "sop_uid", "sop_instance_uid"}
)
_UID = re.compile(r"\b[0-2](?:\.(?:0|[1-9]\d*)){5,}\b")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+")
_DSN_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]+@")


def scrub_text(text: str) -> str:
    """Text without DICOM UIDs, Chinese characters (names, report text) and URL passwords."""
    return _HAN.sub("<han>", _UID.sub("<uid>", _DSN_PASSWORD.sub(r"\1:<secret>@", text)))


def scrub(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """structlog processor: drop forbidden keys, clean every other string (also in nested values)."""
    return {k: "<scrubbed>" if k in FORBIDDEN_KEYS else _clean(v) for k, v in event.items()}


def _clean(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {k: "<scrubbed>" if k in FORBIDDEN_KEYS else _clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(v) for v in value]
    return scrub_text(str(value))


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """One JSON object a line on `stream` (standard error), for structlog and for every library that uses logging."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                scrub,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of one module."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger
