"""transformers' `generate` on the same checkpoint folder: greedy, with its cache, in the same float32 and thread, but without a grammar."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.engine.generate import Engine
from pipeline.evaluation.decode_contenders import Contender, Written
from pipeline.evaluation.decode_texts import Case, Told

PEER = "transformers"
LOOKUP_TOKENS = 10  # as transformers' documentation of prompt lookup decoding uses it
WAYS: Mapping[str, Mapping[str, Any]] = {
    PEER: {},
    f"{PEER} prompt lookup": {"prompt_lookup_num_tokens": LOOKUP_TOKENS},
    f"{PEER} mtp": {"use_mtp": True},
}


def absent() -> str | None:
    """Why there is no peer, in a sentence; None where there is one."""
    if importlib.util.find_spec(PEER) is None:
        return "transformers is not installed and is not measured; `pip install 'ctreport[dev]'` brings it"
    return None


class Peer:
    """transformers' DeepseekV3ForCausalLM of a checkpoint folder; features go where its embedding sees a placeholder."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        library: Any = importlib.import_module(PEER)
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
        self._model: Any = library.DeepseekV3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        mtp = range(engine.config.num_hidden_layers, engine.config.num_hidden_layers + engine.config.num_nextn_predict_layers)
        self._model._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{layer}\..*" for layer in mtp]  # 5.x knows DeepSeek-V3's own 61 alone
        self._model.generation_config = library.GenerationConfig(
            do_sample=False, eos_token_id=engine.tokenizer.eos_id, pad_token_id=engine.tokenizer.pad_id
        )
        self._engine = engine

    def write(self, way: Mapping[str, Any], case: Case, tokens: int) -> Written:
        """Ids behind the prompt, at most `tokens` and an end token."""
        ids = torch.tensor([self._engine.tokenizer.encode(case.prompt)])  # (1, P)
        mask = torch.ones_like(ids)
        with torch.inference_mode(), self._seeing(ids, case):
            out: Tensor = self._model.generate(ids, attention_mask=mask, max_new_tokens=tokens + 1, **way)  # (1, P + T)
        written: list[int] = out[0, ids.shape[1] :].tolist()
        return Written(tuple(written[: written.index(self._engine.tokenizer.eos_id)] if self._engine.tokenizer.eos_id in written else written))

    @contextmanager
    def _seeing(self, ids: Tensor, case: Case) -> Iterator[None]:
        """While the prompt's ids are embedded, its placeholders take the projected features."""
        place = (ids == self._engine.config.ct_placeholder_id).unsqueeze(-1)  # (1, P, 1)
        rows: Tensor = self._engine.model.ct_projector(torch.from_numpy(case.features.astype("float32")))  # (F, hidden)

        def put(module: object, given: tuple[Tensor, ...], embedded: Tensor) -> Tensor:
            return embedded.masked_scatter(place, rows) if embedded.shape[:2] == ids.shape else embedded

        handle = self._model.get_input_embeddings().register_forward_hook(put)
        try:
            yield
        finally:
            handle.remove()


def peers(folder: Path, engine: Engine, case: Case, texts: int, told: Told) -> tuple[list[Contender], list[str]]:
    """transformers in every way that runs here, each on the first `texts` cases, and a sentence for each way that does not."""
    if message := absent():
        return [], [message]
    told(0.0, f"loading the weights into {PEER}")
    peer, found, left_out = Peer(folder, engine), list[Contender](), list[str]()
    for what, way in WAYS.items():
        try:
            peer.write(way, case, 8)
        except Exception as error:  # noqa: BLE001 - another project's code under options that it may not support for this model
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            left_out.append(f"{what} is not measured: it refuses this checkpoint ({type(error).__name__}: {reason})")
        else:
            found.append(Contender(what, partial(peer.write, way), texts))
    return found, left_out


def version() -> str:
    """transformers' version; empty where it is not installed."""
    if absent():
        return ""
    return f"{PEER} {importlib.metadata.version(PEER)}"
