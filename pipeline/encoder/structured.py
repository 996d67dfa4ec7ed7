"""The structured channel: how the images were taken and of whom, as learnable tokens beside the visual ones.

The order is the source article's, `[vision 196] + [CLS kVp mAs kernel]`; thickness, age, sex and contrast follow, then one token per region
that says its side. A number x is `x · weight + bias`, as in FT-Transformer (Gorishniy et al. 2021, "Revisiting Deep Learning Models for Tabular
Data", section 3.3), after it was brought to about −2 … 2; a missing value has an embedding of its own.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipeline.errors import ModelMissing
from pipeline.imaging.volume import Acquisition
from pipeline.model import Side

FILE = "structured.safetensors"
NUMBERS = ("kvp", "mas", "thickness", "age")
TOKENS = 8  # CLS kVp mAs kernel thickness age sex contrast
KERNELS = 64  # vendors name kernels as they like: a name is hashed, what it means is learned
SEXES = ("M", "F", "O")  # PatientSex, PS3.3 C.7.1.1
SIDES = (Side.LEFT, Side.RIGHT, None)  # None: both lungs
MISSING = ("kvp", "mas", "kernel", "thickness", "age", "sex", "contrast")
BEYOND = 4.0  # a scaled number farther out is cut there
SEED = 20_261_130


class Structured(nn.Module):
    """Tokens of `dim` columns for one study's acquisition and its regions' sides."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.cls = nn.Parameter(torch.empty(1, dim))
        self.weight = nn.Parameter(torch.empty(len(NUMBERS), dim))
        self.bias = nn.Parameter(torch.empty(len(NUMBERS), dim))
        self.missing = nn.Parameter(torch.empty(len(MISSING), dim))
        self.kernel = nn.Parameter(torch.empty(KERNELS, dim))
        self.sex = nn.Parameter(torch.empty(len(SEXES), dim))
        self.contrast = nn.Parameter(torch.empty(2, dim))  # without, with
        self.side = nn.Parameter(torch.empty(len(SIDES), dim))
        self.trained = False

    @classmethod
    def seeded(cls, dim: int) -> Self:
        """Untrained tokens, the same ones everywhere: a projector that is trained on them can tell them apart."""
        made = cls(dim)
        generator = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for _, tensor in sorted(made.named_parameters()):
                tensor.normal_(generator=generator)
        return made.eval().requires_grad_(False)

    @classmethod
    def load(cls, folder: Path | None, dim: int) -> Self:
        """Those of a folder; seeded ones where it has none. Raises ModelMissing where they do not fit the encoder."""
        path = folder / FILE if folder else None
        if path is None or not path.is_file():
            return cls.seeded(dim)
        made = cls(dim)
        try:
            made.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()})
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ModelMissing(
                f"{FILE} does not fit an encoder of {dim} columns ({type(error).__name__}); copy the one that was trained with it, or remove it"
            ) from error
        made.trained = True
        return made.eval().requires_grad_(False)

    def save(self, folder: Path) -> None:
        """Write them beside the encoder's weights."""
        save_file({name: tensor.detach().contiguous() for name, tensor in self.state_dict().items()}, folder / FILE, metadata={"format": "pt"})

    def acquisition(self, how: Acquisition) -> Tensor:
        """(8, dim): CLS, kVp, mAs, kernel, thickness, age, sex, contrast."""
        number = {name: self._number(name, value) for name, value in scaled(how).items()}
        kernel = self.kernel[bucket(how.kernel)] if how.kernel.strip() else self._missing("kernel")
        sex = self.sex[SEXES.index(how.sex)] if how.sex in SEXES else self._missing("sex")
        contrast = self._missing("contrast") if how.contrast is None else self.contrast[int(how.contrast)]
        return torch.stack([self.cls[0], number["kvp"], number["mas"], kernel, number["thickness"], number["age"], sex, contrast])

    def regions(self, sides: Sequence[Side | None]) -> Tensor:
        """(R, dim): one token per region; None is a view of both lungs."""
        return self.side[[SIDES.index(side) for side in sides]]

    def _number(self, name: str, value: float | None) -> Tensor:
        row = NUMBERS.index(name)
        return self._missing(name) if value is None else value * self.weight[row] + self.bias[row]

    def _missing(self, name: str) -> Tensor:
        return self.missing[MISSING.index(name)]


def scaled(how: Acquisition) -> dict[str, float | None]:
    """Numbers of a chest CT brought to about −2 … 2; None where the header says nothing or nothing possible."""
    return {
        "kvp": _cut(how.kvp, lambda kvp: (kvp - 110) / 15),
        "mas": _cut(how.mas, lambda mas: math.log2(mas) - math.log2(100)),
        "thickness": _cut(how.thickness_mm, lambda mm: math.log2(mm) - 1),
        "age": _cut(how.age_years, lambda years: (years - 50) / 25, newborn=True),
    }


def bucket(kernel: str) -> int:
    """The row of a ConvolutionKernel name: the same for every spelling of letter case and width."""
    name = " ".join(unicodedata.normalize("NFKC", kernel).upper().split())
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % KERNELS


def _cut(value: float | None, scale: Callable[[float], float], newborn: bool = False) -> float | None:
    """None for nothing, NaN and what cannot be: headers write 0 kVp and 0 mAs where they do not know."""
    if value is None or not math.isfinite(value) or value < 0 or (value == 0 and not newborn):
        return None
    return min(max(scale(value), -BEYOND), BEYOND)
