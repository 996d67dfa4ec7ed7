"""The reference beside a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.drafting.reference import FILE, make, probes, reference_of, write
from pipeline.drafting.served_model import ServedModel
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from pipeline.errors import ModelMissing
from tests.unit.drafting.served import DIM


@pytest.fixture
def folder(model: ServedModel, tmp_path: Path) -> Path:
    """A copy of the checkpoint."""
    return shutil.copytree(model.folder, tmp_path / "copy")


def test_what_is_written_is_read_again(folder: Path, model: ServedModel) -> None:
    made = make(folder)
    write(folder, made)
    read = reference_of(folder, model.digest)
    assert read is not None
    assert (read.digest, read.ids) == (made.digest, made.ids)
    for row, other in zip(read.gaps, made.gaps, strict=True):
        assert row == pytest.approx(other, abs=1e-4)
    assert all(len(ids) == len(gaps) for ids, gaps in zip(made.ids, made.gaps, strict=True))
    assert all(gap >= 0 for gaps in made.gaps for gap in gaps)


def test_it_holds_what_the_engine_writes_with_mtp_too(folder: Path) -> None:
    engine, made = Engine.load(folder), make(folder)
    for probe, ids in zip(probes(DIM), made.ids, strict=True):
        drafted = engine.generate(probe.prompt, probe.features, schema=probe.schema, policy=Policy.fixed(3), max_tokens=probe.max_tokens)
        assert drafted.ids == ids


def test_small_weights_need_no_file(folder: Path, model: ServedModel) -> None:
    found = reference_of(folder, model.digest)
    assert found is not None
    assert found.digest == model.digest


def test_without_weights_and_without_a_file_there_is_none(folder: Path, model: ServedModel) -> None:
    (folder / "model.safetensors").unlink()
    assert reference_of(folder, model.digest) is None


def test_a_reference_of_other_weights_is_refused(folder: Path) -> None:
    write(folder, make(folder))
    with pytest.raises(ModelMissing, match="other weights"):
        reference_of(folder, "0" * 64)


@pytest.mark.parametrize("text", ["", "[]", '{"digest": "x"}', '{"digest": "x", "ids": [["a"]], "gaps": []}'])
def test_a_file_that_cannot_be_read_says_what_to_do(folder: Path, model: ServedModel, text: str) -> None:
    (folder / FILE).write_text(text)
    with pytest.raises(ModelMissing, match="ctreport model reference"):
        reference_of(folder, model.digest)
