"""Start one SGLang 0.5.23 server with ctreport's package, and go down the memory ladder when the GPU's memory does not suffice.

    SGLANG_API_KEY=… python serve.py MODEL --digest HEX [--gpus 8] [--steps 3] [--plain] [--adaptive] [--rung N] [-- more flags]

HEX is what `ctreport model digest MODEL` prints. Only the standard library is used: it runs in SGLang's image. README.md explains the flags.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "ctreport_sglang"
ENVIRONMENT = {
    "SGLANG_EXTERNAL_MODEL_PACKAGE": PACKAGE,
    "SGLANG_EXTERNAL_MM_PROCESSOR_PACKAGE": PACKAGE,
    "SGLANG_EXTERNAL_MM_MODEL_ARCH": "DeepseekV3ForCausalLM",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": str(Path(__file__).resolve().parent),
}
ALWAYS = ("--grammar-backend", "xgrammar", "--constrained-json-disable-any-whitespace", "--enable-metrics", "--log-level", "warning")
ADAPTIVE = {"1": {"candidate_steps": [2, 4], "warmup_batches": 2, "update_interval": 1}}
NO_MEMORY = ("out of memory", "OutOfMemoryError", "Not enough memory", "Please increase --mem-fraction-static")


@dataclass(frozen=True)
class Rung:
    """How much of the GPU a server takes."""

    fraction: float  # of the GPU's memory for weights and cache
    context: int  # tokens of prompt and answer
    graphs: bool  # CUDA graphs: faster steps for some GiB


LADDER = (Rung(0.9, 8192, True), Rung(0.8, 8192, True), Rung(0.8, 4096, True), Rung(0.8, 4096, False))
LAST = "the last rung ran out of memory too; take more GPUs (--gpus), or quantised weights by choice (--quantization, see README.md)"
QUANTISED = (
    "WARNING: --quantization {} changes the model: texts are no longer those of the checkpoint. Make its own reference.json with it, compare "
    "`ctreport eval` before and after, and note it in the model card."
)


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    model: Path
    digest: str
    key: str
    gpus: int
    port: int
    host: str
    steps: int  # 0: without MTP
    adaptive: bool
    quantization: str | None
    more: tuple[str, ...]


def command(wanted: Wanted, rung: Rung, python: str = sys.executable) -> list[str]:
    """The server's command line."""
    where = ["--model-path", str(wanted.model), "--host", wanted.host, "--port", str(wanted.port), "--api-key", wanted.key]
    what = ["--weight-version", wanted.digest, "--tp-size", str(wanted.gpus)]
    memory = ["--mem-fraction-static", str(rung.fraction), "--context-length", str(min(rung.context, longest(wanted.model)))]
    graphs = [] if rung.graphs else ["--disable-cuda-graph"]
    quantised = ["--quantization", wanted.quantization] if wanted.quantization else []
    return [python, "-m", "sglang.launch_server", *where, *what, *speculation(wanted), *memory, *graphs, *quantised, *ALWAYS, *wanted.more]


def speculation(wanted: Wanted) -> list[str]:
    """MTP's flags: one chain of drafts, so one token more is verified than is drafted."""
    if not wanted.steps:
        return []
    chain = ["--speculative-num-steps", str(wanted.steps), "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(wanted.steps + 1)]
    adaptive = ["--speculative-adaptive", "--speculative-adaptive-config", json.dumps(ADAPTIVE)] if wanted.adaptive else []
    return ["--speculative-algorithm", "NEXTN", *chain, *adaptive]


def longest(model: Path) -> int:
    """Tokens that the model was made for."""
    return int(json.loads((model / "config.json").read_text(encoding="utf-8"))["max_position_embeddings"])


def climb(wanted: Wanted, first: int, run: Callable[[Sequence[str]], tuple[int, bool]], say: Callable[[str], None]) -> int:
    """Run the server on rung `first` and, as long as memory runs out, on the next ones; the exit status of the last one."""
    if wanted.quantization:
        say(QUANTISED.format(wanted.quantization))
    status = 1
    for number in range(first, len(LADDER)):
        rung = LADDER[number]
        say(f"rung {number}: memory fraction {rung.fraction}, context {rung.context}, CUDA graphs {'on' if rung.graphs else 'off'}")
        status, starved = run(command(wanted, rung))
        if not starved:
            return status
    say(LAST)
    return status


def run(line: Sequence[str]) -> tuple[int, bool]:
    """Run one server until it ends: its status, and whether it ended for lack of memory. What it prints is passed on."""
    with subprocess.Popen(line, env=os.environ | environment(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())  # SGLang ends its answers first
        try:
            starved = sum(ran_out(text) for text in _passed_on(process.stdout)) > 0  # all of them are passed on
            status = process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
    return status, starved and status != 0


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What the server finds our package by; a PYTHONPATH that is there stays behind it."""
    path = ":".join(part for part in (ENVIRONMENT["PYTHONPATH"], given.get("PYTHONPATH", "")) if part)
    return {**ENVIRONMENT, "PYTHONPATH": path}


def ran_out(text: str) -> bool:
    """True for a line of the log that tells of too little GPU memory."""
    return any(words in text for words in NO_MEMORY)


def _passed_on(lines: Iterator[str]) -> Iterator[str]:
    for text in lines:
        sys.stdout.write(text)
        sys.stdout.flush()
        yield text


def parsed(arguments: Sequence[str], given: Mapping[str, str]) -> tuple[Wanted, int]:
    """The command line and the rung to begin on. SystemExit with the sentence that says what is missing."""
    parser = argparse.ArgumentParser(description="Start one SGLang draft server.")
    parser.add_argument("model", type=Path, help="checkpoint folder")
    parser.add_argument("--digest", default=given.get("CTREPORT_SERVED_DIGEST", ""), help="what `ctreport model digest MODEL` prints")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that share the model: 8 for DeepSeek-V3 and R1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 only inside an internal network")
    parser.add_argument("--steps", type=int, default=3, help="tokens that MTP drafts per step")
    parser.add_argument(
        "--plain", action="store_true", help="without MTP: the next rung of the drafter's ladder, and the one that others are compared with"
    )
    parser.add_argument("--adaptive", action="store_true", help="let the server move between 2 and 4 steps")
    parser.add_argument("--rung", type=int, default=0, choices=range(len(LADDER)), help="rung of the memory ladder to begin on")
    parser.add_argument("--quantization", help="quantised weights, by choice only: the texts change")
    parser.add_argument("more", nargs="*", help="behind --: further flags of SGLang")
    told = parser.parse_args(arguments)
    if len(told.digest) != 64:
        parser.error("--digest must be the 64 hex digits that `ctreport model digest MODEL` prints: drafts of other weights are refused by it")
    if not given.get("SGLANG_API_KEY"):
        parser.error("SGLANG_API_KEY is empty: a draft server without a key writes for everybody; set it here and as CTREPORT_SGLANG_API_KEY")
    steps = 0 if told.plain else told.steps
    where = (told.gpus, told.port, told.host)
    return Wanted(told.model, told.digest, given["SGLANG_API_KEY"], *where, steps, told.adaptive, told.quantization, tuple(told.more)), told.rung


def main() -> int:
    """Start, and stay until the server ends."""
    wanted, first = parsed(sys.argv[1:], os.environ)
    return climb(wanted, first, run, lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(main())
