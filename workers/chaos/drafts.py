"""The draft server under fire: the shipped fake, faithful enough for the self-check, with one kind of trouble for as long as a strike lasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from pipeline.drafting.fake_answers import normal_chest
from pipeline.drafting.fake_server import FakeServer, Script, Trouble
from pipeline.drafting.reference import FILE, make, reference_of, write
from pipeline.drafting.served_model import ServedModel
from pipeline.engine.checkpoint import PACKAGED
from workers.chaos.plan import Fault

TROUBLES: Mapping[Fault, Trouble] = MappingProxyType(
    {
        Fault.DRAFTER_HANGS: Trouble.HANG,
        Fault.DRAFTER_GARBAGE: Trouble.GARBAGE,
        Fault.DRAFTER_ERRORS: Trouble.ERROR,
        Fault.DRAFTER_DIES: Trouble.DIES,
    }
)
MANY = 100_000  # answers; more than any strike is asked for


def served_folder(folder: Path) -> Path:
    """A folder that serves the packaged model: links to its files, and the tokens that a server of it must write, made once."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in PACKAGED.iterdir():
        if not (folder / file.name).exists():
            (folder / file.name).symlink_to(file)
    if not (folder / FILE).exists():
        write(folder, make(PACKAGED))
    return folder


class FakeDrafts:
    """A server that runs, and what goes wrong with it."""

    def __init__(self, server: FakeServer, folder: Path) -> None:
        self._server = server
        self.folder = folder

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def trouble(self, fault: Fault) -> None:
        """From now on every answer goes wrong in this way."""
        self._server.script.troubles.extend([TROUBLES[fault]] * MANY)

    def well(self) -> None:
        """From now on every answer is one."""
        self._server.script.troubles.clear()


@contextmanager
def fake_drafts(folder: Path, port: int = 0) -> Iterator[FakeDrafts]:
    """A fake draft server of the packaged model until the block ends; `folder` as `served_folder` made it. Port 0 takes a free one."""
    model = ServedModel.read(folder)
    reference = reference_of(folder, model.digest)
    assert reference is not None, "served_folder has written one"
    with FakeServer(model, Script(answers=normal_chest(model, reference)), port) as server:
        yield FakeDrafts(server, folder)
