from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import ModelMissing
from pipeline.imaging.denoise import Denoiser
from pipeline.imaging.laterality import SideCheck
from pipeline.imaging.packaged import CARD, PACKAGED

NETS: dict[str, Callable[[Path], Denoiser | SideCheck]] = {
    "denoiser": Denoiser.load,
    "denoiser_article": lambda folder: Denoiser.load(folder, "denoiser_article"),
    "side": SideCheck.load,
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(PACKAGED, tmp_path / "weights")


@pytest.mark.parametrize("name", NETS)
def test_the_card_says_what_the_weights_are_and_that_they_know_phantoms_only(name: str) -> None:
    entry = json.loads((PACKAGED / CARD).read_text(encoding="utf-8"))[name]
    assert entry["use"] == "phantom-only"
    assert {"what", "training", "parameters", "sha256"} <= entry.keys()
    assert {"data", "command", "seed", "steps"} <= entry["training"].keys()
    assert NETS[name](PACKAGED).version == entry["sha256"][:16]


def test_all_weights_together_are_small() -> None:
    assert sum(path.stat().st_size for path in PACKAGED.iterdir()) < 3_000_000


@pytest.mark.parametrize("name", NETS)
def test_other_weights_than_the_card_describes_are_refused(name: str, copy: Path) -> None:
    path = copy / f"{name}.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelMissing, match=rf"'{name}.safetensors' .*SHA-256 differs.*ctreport train --part"):
        NETS[name](copy)


@pytest.mark.parametrize("name", NETS)
def test_missing_weights_are_named(name: str, copy: Path) -> None:
    (copy / f"{name}.safetensors").unlink()
    with pytest.raises(ModelMissing, match=rf"'{name}.safetensors' .*FileNotFoundError"):
        NETS[name](copy)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"side": 1}', '{"side": {}}'])
def test_a_card_that_says_nothing_is_refused(text: str, copy: Path) -> None:
    (copy / CARD).write_text(text, encoding="utf-8")
    with pytest.raises(ModelMissing, match=r"'side\.safetensors'"):
        SideCheck.load(copy)


def test_weights_of_another_net_are_refused_even_where_the_card_knows_them(copy: Path) -> None:
    card = json.loads((copy / CARD).read_text(encoding="utf-8"))
    card["side"]["sha256"] = card["denoiser"]["sha256"]
    (copy / CARD).write_text(json.dumps(card), encoding="utf-8")
    shutil.copy(copy / "denoiser.safetensors", copy / "side.safetensors")
    with pytest.raises(ModelMissing, match="RuntimeError"):
        SideCheck.load(copy)
