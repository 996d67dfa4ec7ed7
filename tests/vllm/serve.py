"""Runs in the environment of vLLM, not in ours: greedy answers of a checkpoint folder, with or without its MTP layer.

    python serve.py FOLDER REQUESTS ANSWERS K [SCHEMA]

REQUESTS (safetensors): for request i `ids.i` (T), `rows.i` (T, hidden) embeddings of all positions, `places.i` (T) 1 where the row counts
and 0 where the id does. ANSWERS (JSON): `{"ids": [[…]], "drafted": n, "accepted": n}`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

QUIET = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process: nothing to leave behind
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
LONGEST = 1024  # tokens of prompt and answer
ANSWER = 160


def main() -> None:
    """Answer every request and write what came out."""
    folder, requests, answers, k, *schema = sys.argv[1:]
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    speculation = {"speculative_config": {"method": "mtp", "num_speculative_tokens": int(k)}} if int(k) else {}
    llm = LLM(
        model=folder,
        dtype="float32",
        max_model_len=LONGEST,
        max_num_seqs=4,
        enforce_eager=True,
        enable_prompt_embeds=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        structured_outputs_config={"backend": "xgrammar", "disable_any_whitespace": True},
        **speculation,
    )
    held = StructuredOutputsParams(json=Path(schema[0]).read_text(encoding="utf-8")) if schema else None
    sampling = SamplingParams(temperature=0.0, max_tokens=ANSWER, structured_outputs=held, detokenize=False)
    made = llm.generate([*prompts(Path(requests))], sampling, use_tqdm=False)
    value = {"ids": [list(one.outputs[0].token_ids) for one in made], **counted(llm.get_metrics())}
    Path(answers).write_text(json.dumps(value), encoding="utf-8")


def prompts(path: Path) -> Iterator[dict[str, Any]]:
    """Mixed prompts: a token where the id counts, a projected feature where the row does; a prompt without features is ids alone."""
    from safetensors.torch import load_file

    held = load_file(path)
    for number in range(len(held) // 3):
        ids, rows, places = (held[f"{name}.{number}"] for name in ("ids", "rows", "places"))
        if not places.any():
            yield {"prompt_token_ids": ids.tolist()}
        else:
            yield {"prompt_embeds": rows, "prompt_token_ids": ids.tolist(), "prompt_is_token_ids": (places == 0).tolist()}


def counted(metrics: Iterable[Any]) -> dict[str, int]:
    """Drafted and accepted tokens of the run."""
    names = {"vllm:spec_decode_num_draft_tokens": "drafted", "vllm:spec_decode_num_accepted_tokens": "accepted"}
    return {names[one.name]: int(one.value) for one in metrics if one.name in names}


if __name__ == "__main__":
    main()
