"""Deliver: hand finished drafts to those who asked, and the notice of a withdrawal to those who have one. Today: Markdown files in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pipeline.errors import LeaseLost, StorageFull
from pipeline.model import Lease, Step
from pipeline.ports import Delivery, Store
from pipeline.retrying import Retry

WITHDRAWAL = "withdrawal"
Render = Callable[[Mapping[str, object]], str]


@dataclass(frozen=True)
class Delivering:
    """What the step works with. Where `folder` is None nobody asks for reports; a notice of a withdrawal is then noted as told to nobody."""

    store: Store
    folder: Path | None
    render: Render
    render_withdrawal: Render
    retry: Retry


def deliver(ports: Delivering, limit: int, lease: Lease) -> int:
    """Deliver up to `limit` waiting rows; returns how many were claimed."""
    with ports.store.begin() as work:
        claimed = work.deliveries.claim(limit, lease, None if ports.folder else WITHDRAWAL)
    for delivery in claimed:
        try:
            _deliver_one(ports, delivery, lease)
        except LeaseLost:
            continue  # somebody else delivers it
    return len(claimed)


def _deliver_one(ports: Delivering, delivery: Delivery, lease: Lease) -> None:
    try:
        if ports.folder is not None:
            _hand_over(ports, ports.folder, delivery)
    except OSError as error:
        full = StorageFull(f"the delivery folder cannot be written ({error.strerror}); check CTREPORT_DELIVER_FOLDER")
        with ports.store.begin() as work:
            work.deliveries.give_back(delivery, str(full), ports.retry.after(full, delivery.attempts), lease)
        return
    to = "nobody" if ports.folder is None else "folder"
    with ports.store.begin() as work:
        work.deliveries.done(delivery, lease)
        work.audit.append(Step.DELIVER.value, study_id=delivery.study_id, draft_id=str(delivery.draft_id), kind=delivery.kind, to=to)


def _hand_over(ports: Delivering, folder: Path, delivery: Delivery) -> None:
    """The report, or beside it the notice that it was withdrawn."""
    with ports.store.begin() as work:
        shown = work.reports.shown(delivery.draft_id)
    if delivery.kind == WITHDRAWAL:
        _write(folder / f"{delivery.draft_id}.withdrawn.md", ports.render_withdrawal(shown))
    else:
        _write(folder / f"{delivery.draft_id}.md", ports.render(shown))


def _write(path: Path, text: str) -> None:
    """Whole file or none: temporary name, fsync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{uuid4().hex}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
