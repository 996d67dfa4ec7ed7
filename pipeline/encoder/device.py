"""Where the published encoders run: device and number format, chosen once per process, with the reason in the log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

from pipeline import log
from pipeline.errors import ModelMissing

logger = log.get(__name__)
Device = Literal["cpu", "cuda"]
Dtype = Literal["float32", "bfloat16", "float16"]
# cuBLAS sums in one order only with a fixed workspace (torch.use_deterministic_algorithms); read when CUDA starts
CUBLAS_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@dataclass(frozen=True, slots=True)
class Seen:
    """What torch finds on this machine."""

    cuda: bool = False
    bfloat16: bool = False
    card: str = ""  # the GPU's name


@dataclass(frozen=True, slots=True)
class Placement:
    """Device and number format of the network, and why."""

    device: Device
    dtype: Dtype
    reason: str

    @property
    def torch_dtype(self) -> torch.dtype:
        """The format as torch names it."""
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.dtype]

    @property
    def accelerator(self) -> bool:
        """True on a GPU."""
        return self.device != "cpu"


ON_CPU = Placement("cpu", "float32", "the processor reads float32")


def choose(device: Literal["auto", "cpu", "cuda"], dtype: Literal["auto", "float32", "bfloat16", "float16"], seen: Seen) -> Placement:
    """auto takes a GPU where there is one, in bfloat16 where it has it, else float16; the processor always computes in float32.

    Raises ModelMissing where a GPU is asked for and none is there, or half precision is asked of the processor.
    """
    if device == "cuda" and not seen.cuda:
        raise ModelMissing(
            "CTREPORT_ENCODER_DEVICE is cuda and torch finds no GPU here; install a CUDA build of torch and its driver, or set auto or cpu"
        )
    if device == "cpu" or not seen.cuda:
        if dtype not in ("auto", "float32"):
            raise ModelMissing(f"CTREPORT_ENCODER_DTYPE is {dtype} and the encoder runs on the processor, which takes float32; set auto or float32")
        return Placement("cpu", "float32", "CTREPORT_ENCODER_DEVICE is cpu" if device == "cpu" else "no GPU found")
    if dtype != "auto":
        return Placement("cuda", dtype, f"{seen.card}; CTREPORT_ENCODER_DTYPE is {dtype}")
    if seen.bfloat16:
        return Placement("cuda", "bfloat16", f"{seen.card} computes in bfloat16")
    return Placement("cuda", "float16", f"{seen.card} has no bfloat16")


def look() -> Seen:
    """Ask torch."""
    if not torch.cuda.is_available():
        return Seen()
    return Seen(True, torch.cuda.is_bf16_supported(including_emulation=False), torch.cuda.get_device_name())


@lru_cache(maxsize=1)
def placement(device: Literal["auto", "cpu", "cuda"] = "auto", dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto") -> Placement:
    """This process's placement: sums in one order from here on, so that a study gives the same bytes. Raises ModelMissing."""
    os.environ.setdefault(*CUBLAS_WORKSPACE)
    chosen = choose(device, dtype, look())
    torch.set_num_threads(1)  # process-wide, as the compact encoder has it
    if chosen.accelerator:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    logger.info("encoder_placed", device=chosen.device, dtype=chosen.dtype, reason=chosen.reason)
    return chosen
