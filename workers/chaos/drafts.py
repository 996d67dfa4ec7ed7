"""The draft server under fire: the shipped fake, faithful enough for the self-check, with one kind of trouble for as long as a strike lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.drafting.fake_server import FakeServer, Script, Trouble, shortest
from pipeline.drafting.reference import FILE, Reference, make, probes, reference_of, write
from pipeline.drafting.schema import dumps
from pipeline.drafting.served_model import ServedModel
from pipeline.engine.checkpoint import PACKAGED
from workers.chaos.plan import Fault

NORMAL = "胸部CT平扫未见明显异常。"
TROUBLES: Mapping[Fault, Trouble] = MappingProxyType(
    {
        Fault.DRAFTER_HANGS: Trouble.HANG,
        Fault.DRAFTER_GARBAGE: Trouble.GARBAGE,
        Fault.DRAFTER_ERRORS: Trouble.ERROR,
        Fault.DRAFTER_DIES: Trouble.DIES,
    }
)
MANY = 100_000  # answers; more than any strike is asked for
Answers = Callable[[Mapping[str, Any], Sequence[int]], str | Sequence[int]]


def served_folder(folder: Path) -> Path:
    """A folder that serves the packaged model: links to its files, and the tokens that a server of it must write, made once."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in PACKAGED.iterdir():
        if not (folder / file.name).exists():
            (folder / file.name).symlink_to(file)
    if not (folder / FILE).exists():
        write(folder, make(PACKAGED))
    return folder


def answers_of(model: ServedModel, reference: Reference) -> Answers:
    """What the self-check wants to read, and a normal chest for everything else."""
    asked = [model.question(one.prompt, one.features, one.schema, one.max_tokens).ids for one in probes(model.feature_dim)]
    known = dict(zip(map(tuple, asked), reference.ids, strict=True))

    def answer(schema: Mapping[str, Any], ids: Sequence[int]) -> str | Sequence[int]:
        said = shortest(schema)
        return known.get(tuple(ids)) or dumps(_with_texts(said))

    return answer


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
    with FakeServer(model, Script(answers=answers_of(model, reference)), port) as server:
        yield FakeDrafts(server, folder)


def _with_texts(said: Any) -> Any:
    """Where the shortest answer has a full stop, a sentence."""
    if isinstance(said, dict):
        return {name: _with_texts(part) for name, part in said.items()}
    return NORMAL if said == "。" else said
