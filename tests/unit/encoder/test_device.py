from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
import torch

from pipeline.encoder.device import Seen, choose, look, placement
from pipeline.errors import ModelMissing

GPU = Seen(cuda=True, bfloat16=True, card="NVIDIA H200")
OLD_GPU = Seen(cuda=True, bfloat16=False, card="Tesla V100")
Asked = Literal["auto", "cpu", "cuda"]
Format = Literal["auto", "float32", "bfloat16", "float16"]


@pytest.fixture
def _afresh() -> Iterator[None]:
    placement.cache_clear()
    yield
    placement.cache_clear()


@pytest.mark.parametrize(
    ("device", "dtype", "seen", "chosen"),
    [
        ("auto", "auto", GPU, ("cuda", "bfloat16")),
        ("auto", "auto", OLD_GPU, ("cuda", "float16")),
        ("auto", "auto", Seen(), ("cpu", "float32")),
        ("cpu", "auto", GPU, ("cpu", "float32")),
        ("cpu", "float32", GPU, ("cpu", "float32")),
        ("cuda", "float32", GPU, ("cuda", "float32")),
        ("auto", "float16", GPU, ("cuda", "float16")),
    ],
)
def test_device_and_format_follow_settings_and_machine(device: Asked, dtype: Format, seen: Seen, chosen: tuple[str, str]) -> None:
    made = choose(device, dtype, seen)
    assert (made.device, made.dtype) == chosen
    assert made.reason
    assert made.torch_dtype is getattr(torch, made.dtype)
    assert made.accelerator is (made.device == "cuda")


@pytest.mark.parametrize(
    ("device", "dtype", "sentence"),
    [
        ("cuda", "auto", "CTREPORT_ENCODER_DEVICE is cuda .* no GPU"),
        ("auto", "bfloat16", "CTREPORT_ENCODER_DTYPE is bfloat16"),
        ("cpu", "float16", "float16"),
    ],
)
def test_what_this_machine_cannot_do_is_a_sentence(device: Asked, dtype: Format, sentence: str) -> None:
    with pytest.raises(ModelMissing, match=sentence):
        choose(device, dtype, Seen())


class Told:
    """A logger that keeps what it is told, whatever level an earlier test has set."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, str]]] = []

    def info(self, event: str, **fields: str) -> None:
        self.lines.append((event, fields))


@pytest.mark.usefixtures("_afresh")
def test_a_process_chooses_once_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr("pipeline.encoder.device.logger", told)
    assert placement("cpu", "auto") is placement("cpu", "auto")
    assert told.lines == [("encoder_placed", {"device": "cpu", "dtype": "float32", "reason": "CTREPORT_ENCODER_DEVICE is cpu"})]


def test_torch_is_asked_what_the_machine_has() -> None:
    assert look().cuda is torch.cuda.is_available()
