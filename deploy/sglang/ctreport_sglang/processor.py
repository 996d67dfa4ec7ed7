"""How a request's features reach the model: a data URI of safetensors in `image_data`, one row for each placeholder of the prompt."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from sglang.srt.managers.schedule_batch import Modality, MultimodalDataItem, MultimodalProcessorOutput
from sglang.srt.multimodal.processors.base_processor import BaseMultimodalProcessor
from torch import Tensor

from ctreport_sglang.model import DeepseekV3ForCausalLM

HEAD = "data:application/x-safetensors;base64,"
NAME = "features"
MAX_CHARACTERS = 64 * 1024 * 1024  # of one request's data URI


class CtProcessor(BaseMultimodalProcessor):  # type: ignore[misc]  # SGLang is not installed where types are checked
    """Prompt ids and one data URI → ids and one item. ValueError (answered as 400) says what does not fit."""

    models = [DeepseekV3ForCausalLM]  # noqa: RUF012 - SGLang reads it from the class
    prefer_tokenized_input = True  # our own rendered ids, never the text again

    def __init__(self, hf_config: Any, server_args: Any, _processor: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(hf_config, server_args, _processor, *args, **kwargs)
        self._placeholder = int(hf_config.ct_placeholder_id)
        self._columns = int(hf_config.ct_feature_dim)

    async def process_mm_data_async(self, image_data: Sequence[Any] | None, input_text: Any, *args: Any, **kwargs: Any) -> MultimodalProcessorOutput:
        """SGLang calls this for each request that carries data."""
        ids = list(input_text) if not isinstance(input_text, str) else self._tokenizer.encode(input_text, add_special_tokens=False)
        rows = decoded(image_data, self._columns)
        item = MultimodalDataItem(modality=Modality.IMAGE, feature=rows, offsets=runs(ids, self._placeholder, len(rows)))
        item.set_identity(identity(rows))
        return MultimodalProcessorOutput(input_ids=ids, mm_items=[item], im_token_id=self._placeholder)


def decoded(image_data: Sequence[Any] | None, columns: int) -> Tensor:
    """The features (N, D) of a request; nothing of them is ever in a message."""
    if image_data is None or len(image_data) != 1 or not isinstance(image_data[0], str) or not image_data[0].startswith(HEAD):
        raise ValueError(f"image_data must be one string that begins with '{HEAD}'")
    if len(image_data[0]) > MAX_CHARACTERS:
        raise ValueError(f"image_data has {len(image_data[0])} characters, at most {MAX_CHARACTERS} are read")
    try:
        tensors = load(base64.b64decode(image_data[0].removeprefix(HEAD), validate=True))
    except (binascii.Error, SafetensorError):
        raise ValueError("image_data holds no safetensors in base64") from None
    rows = tensors.get(NAME)
    if rows is None or rows.ndim != 2 or rows.shape[1] != columns or rows.dtype != torch.float32:
        raise ValueError(f"image_data must hold a float32 tensor '{NAME}' of shape (N, {columns})")
    if not bool(torch.isfinite(rows).all()):
        raise ValueError(f"the tensor '{NAME}' holds NaN or infinite values")
    return rows


def runs(ids: Sequence[int], placeholder: int, count: int) -> list[tuple[int, int]]:
    """First and last position of each run of placeholders. ValueError unless there are `count` placeholders in all."""
    places = [position for position, token in enumerate(ids) if token == placeholder]
    if not places or len(places) != count:
        raise ValueError(f"the prompt has {len(places)} placeholders and {count} feature rows came; render the prompt for the features")
    firsts = [place for place in places if place == 0 or ids[place - 1] != placeholder]
    lasts = [place for place in places if place + 1 == len(ids) or ids[place + 1] != placeholder]
    return list(zip(firsts, lasts, strict=True))


def identity(rows: Tensor) -> bytes:
    """SHA-256 over shape and values: the prefix cache tells studies apart by it."""
    return hashlib.sha256(repr(tuple(rows.shape)).encode() + rows.numpy().tobytes()).digest()
