"""`ctreport model check --server`, `model digest` and `model reference`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.drafting.fake_server import FakeServer, Script, shortest
from pipeline.drafting.reference import FILE, probes, reference_of
from pipeline.drafting.schema import dumps
from pipeline.drafting.served_model import ServedModel
from pipeline.engine.checkpoint import digest
from pipeline.engine.seeded import write_seeded_checkpoint
from workers.commands.model_check import model_app

RUN = CliRunner()
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # a command ends with its process, and so do its connections


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("checkpoint")
    write_seeded_checkpoint(target, feature_dim=8)
    return target


def test_the_digest_is_what_a_server_is_started_with(folder: Path) -> None:
    ran = RUN.invoke(model_app, ["digest", str(folder)])
    assert ran.exit_code == 0
    assert ran.stdout.strip() == digest(folder)


def test_a_reference_is_written_and_a_faithful_server_may_draft(folder: Path) -> None:
    ran = RUN.invoke(model_app, ["reference", str(folder)])
    assert ran.exit_code == 0, ran.output
    model = ServedModel.read(folder)
    reference = reference_of(folder, model.digest)
    assert reference is not None
    assert (folder / FILE).is_file()
    asked = [model.question(one.prompt, one.features, one.schema, one.max_tokens).ids for one in probes(8)]
    known = dict(zip(asked, reference.ids, strict=True))
    with FakeServer(model, Script(answers=lambda _, ids: known[tuple(ids)])) as server:
        ran = RUN.invoke(model_app, ["check", str(folder), "--server", server.url])
        told = RUN.invoke(model_app, ["check", str(folder), "--server", server.url, "--json", "-"])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[0].startswith("✓ sglang at 127.0.0.1:")
    assert ran.stdout.splitlines()[-1] == "✓ it may draft"
    value = json.loads(told.stdout)
    assert (value["may_draft"], value["k"], value["differences"]) == (True, 3, 0)


def test_a_server_of_something_else_may_not_and_the_screen_says_why(folder: Path) -> None:
    model = ServedModel.read(folder)
    with FakeServer(model, Script(answers=lambda schema, _: dumps(shortest(schema)))) as server:
        ran = RUN.invoke(model_app, ["check", str(folder), "--server", server.url])
        plain = RUN.invoke(model_app, ["check", str(folder), "--server", server.url, "--kind", "sglang-plain"])
    assert ran.exit_code == 1
    assert "is another one than the reference writes" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "✗ it may not draft"
    assert "start it without --speculative-algorithm" in plain.stdout


def test_a_server_that_is_not_there_is_told_in_one_line(folder: Path) -> None:
    ran = RUN.invoke(model_app, ["check", str(folder), "--server", "http://127.0.0.1:9"])
    assert ran.exit_code == 1
    assert "cannot be reached" in ran.stdout


def test_neither_a_folder_nor_a_server_is_wrong_use() -> None:
    assert RUN.invoke(model_app, ["check"]).exit_code == 2
