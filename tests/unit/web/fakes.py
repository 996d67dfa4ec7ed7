"""Requests in memory behind the API: what the store's own tests show of PostgreSQL, without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from starlette.applications import Starlette

from pipeline.asking import Asked, Lengths
from pipeline.errors import NotFound, PipelineError
from pipeline.export.markdown import draft_markdown
from pipeline.model import WATERMARK, RequestState
from pipeline.ports import Work
from pipeline.web.api import Api
from pipeline.web.app import create_app
from pipeline.web.asking import Choices
from pipeline.web.events import Streams
from tests.builders import NOW, Bell

TOKEN = "a-token-of-some-length"
STUDY = "1.2.840.1"
CHOICES = Choices(("radiology", "oncology", "pulmonology"), ("检查所见", "描述", "诊断意见", "建议"), "radiology")
SHOWN: dict[str, Any] = {
    "study_uid": STUDY,
    "department": "oncology",
    "state": "waiting",
    "status": "待审",
    "watermark": WATERMARK,
    "revision": 1,
    "series": {"chosen": ["1.2.3"], "refused": [], "scores": []},
    "draft": {
        "sections": {"检查所见": "右肺上叶结节，约8mm。", "诊断意见": "右肺上叶结节。", "建议": "建议随访。"},
        "findings": [],
        "flags": [],
        "source": {"rung": "embedded", "model": "tiny", "model_digest": "abc", "server": "", "phantom_only": True, "rules_version": 1},
        "generation": {"tokens": 90, "verify_count": 30, "accepted_histogram": [5, 25], "seconds": 0.5, "k": {"描述": 5}, "positions": []},
    },
}


@dataclass
class Desk:
    """Requests by id. `fault` is raised by every transaction while it is set."""

    rows: dict[UUID, Asked] = field(default_factory=dict)
    fault: PipelineError | None = None
    bell: Bell = field(default_factory=Bell)
    ticks: list[Callable[[], None]] = field(default_factory=list)  # what happens between two looks of a stream

    @contextmanager
    def begin(self) -> Iterator[Work]:
        """One transaction."""
        if self.fault is not None:
            raise self.fault
        yield cast(Work, SimpleNamespace(requests=self, reports=SimpleNamespace(shown=lambda _: SHOWN)))

    def ask_for(self, study: str, department: str, lengths: Lengths, _actor: str) -> tuple[Asked, bool]:
        """As the port says, of one study."""
        if study != STUDY:
            raise NotFound("no study has this UID or id")
        found = next((row for row in self.rows.values() if row.department == department), None)
        return (found, False) if found else (self.add(department, lengths), True)

    def add(self, department: str = "oncology", lengths: Lengths = None, **changes: Any) -> Asked:
        """A request that waits, unless told otherwise."""
        asked = replace(Asked(uuid4(), uuid4(), department, RequestState.WAITING, lengths, NOW, step="draft"), **changes)
        self.rows[asked.id] = asked
        return asked

    def change(self, request_id: UUID, **changes: Any) -> None:
        """What became of a request."""
        self.rows[request_id] = replace(self.rows[request_id], **changes)

    def get(self, request_id: UUID) -> Asked:
        """Raises NotFound."""
        if request_id not in self.rows:
            raise NotFound(f"there is no request {request_id}")
        return self.rows[request_id]

    def recent(self, limit: int) -> tuple[Asked, ...]:
        """The newest first."""
        return tuple(self.rows.values())[::-1][:limit]

    async def tick(self) -> None:
        """Between two looks something may happen."""
        if self.ticks:
            self.ticks.pop(0)()


def app_of(desk: Desk, token: str | None = TOKEN, *, streams: int = 4, looks: int = 5) -> Starlette:
    """The web application over these requests."""
    made = Streams(streams, looks, desk.tick)
    return create_app(dict, Api(desk.begin, lambda: desk.bell, token, CHOICES, draft_markdown, made))
