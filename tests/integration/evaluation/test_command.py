"""`ctreport eval` on weights folders that know nothing: from files to the table, and a second run reads the answers of the first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from pipeline.encoder.compact import DIM
from pipeline.encoder.net import CompactNet
from pipeline.engine.seeded import write_seeded_checkpoint
from workers.cli import app

SEED = "900003"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Encoder and checkpoint with random weights."""
    encoder, engine = tmp_path_factory.mktemp("encoder"), tmp_path_factory.mktemp("engine")
    torch.manual_seed(0)
    save_file(CompactNet().state_dict(), encoder / "compact.safetensors")
    (encoder / "card.json").write_text('{"use": "phantom-only"}', encoding="utf-8")
    write_seeded_checkpoint(engine, feature_dim=DIM)
    return str(encoder), str(engine)


def test_the_command_evaluates_two_weights_folders(folders: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    encoder, engine = folders
    asked = ["eval", "--n", "2", "--seed", SEED, "--weights", engine, "--encoder-weights", encoder, "--k", "2", "--json", "r.json"]
    ran = CliRunner().invoke(app, asked)
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert ran.exit_code == 1, ran.output  # weights that know nothing reach no must
    assert (result["n"], result["seed"]) == (2, int(SEED))
    assert result["json_valid"]["value"] is not None
    assert result["seconds"]["see"] > 0
    assert result["seconds"]["draft"] > 0
    assert result["machine"]
    lines = [line for path in tmp_path.glob(".ctreport/eval/*/*/*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]
    again = CliRunner().invoke(app, [*asked[:-1], "again.json"])
    assert again.exit_code == 1
    assert len(lines) == 2
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))["lesion_f1"] == result["lesion_f1"]


def test_the_heads_alone_need_no_checkpoint(folders: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["eval", "--n", "1", "--seed", SEED, "--heads-only", "--encoder-weights", folders[0], "--json", "r.json"])
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert result["agreement"]["value"] is None
    assert result["seconds"]["draft"] == 0
