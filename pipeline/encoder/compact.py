"""The compact encoder of the embedded default: one chest volume → (24, 128) features and up to six candidate regions.

The tokens carry what the heads know (posteriors, whole millimetres) beside raw features: a concept bottleneck, and it is meant to be one.
Sides come from patient coordinates, never from a network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pipeline.encoder.net import SIZES, CompactNet, crops_at, peaks, places
from pipeline.encoder.prepare import Prepared
from pipeline.errors import ModelMissing
from pipeline.imaging.canonical import SHAPE, SPACING_MM, Canonical, canonical
from pipeline.imaging.volume import Acquisition, Volume
from pipeline.imaging.windows import ENCODER_WINDOWS
from pipeline.model import LIVE, Candidate, Features, Side

WEIGHTS = Path(__file__).parent / "weights"
NAME = "compact"
PROPOSALS = 6
DIM = 128
TOKENS = PROPOSALS + 2 + 12 + 4
MIN_SCORE = 0.2  # weaker proposals stay in the tokens but are no candidates
EFFUSION_AT = 0.5
LOW_DOSE_MAS = 60.0
KINDS = ("结节", "实变")
DENSITIES = ("实性", "磨玻璃", "部分实性")
LOBES = ("上叶", "中叶", "下叶")
# one column block per kind of token, so that a linear projector can tell them apart
PROPOSAL, EFFUSION, GRID, CONDITION = range(4)
PREPROCESSING = hashlib.sha256(repr((SHAPE, SPACING_MM, ENCODER_WINDOWS, MIN_SCORE, LOW_DOSE_MAS)).encode()).hexdigest()[:16]


SliceOf = Callable[[NDArray[np.float64]], tuple[str, int] | None]  # a point (LPS, mm) → the slice that shows it


class CompactEncoder:
    """One set of weights in memory. Deterministic: the same files give the same bytes."""

    def __init__(self, net: CompactNet, card: dict[str, Any], version: str) -> None:
        self._net = net.eval()
        self.card = card
        self.name = NAME
        self.version = version
        self.preprocessing = PREPROCESSING
        self.dim = DIM
        self.batch = 1  # on a processor a study gains nothing from company
        self.phantom_only = card.get("use") != LIVE

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Weights and card of a folder. Raises ModelMissing with what, where and what to do."""
        torch.set_num_threads(1)  # process-wide: sums in one order, so that a study gives the same bytes anywhere
        weights = folder / "compact.safetensors"
        try:
            card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
            tensors = load_file(weights)
            net = CompactNet()
            net.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        except (OSError, ValueError, SafetensorError, RuntimeError) as error:
            raise ModelMissing(
                f"the encoder's weights in '{folder}' cannot be loaded ({type(error).__name__}); set CTREPORT_ENCODER_WEIGHTS to a folder with "
                "compact.safetensors and card.json, or unset it for the packaged ones"
            ) from error
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        if card.get("sha256", digest) != digest:
            raise ModelMissing(
                f"the encoder's weights in '{folder}' are not those of its card (sha256 {digest[:12]}…, card {str(card['sha256'])[:12]}…): a copy "
                "was cut short or changed; copy the folder again, or unset CTREPORT_ENCODER_WEIGHTS for the packaged ones"
            )
        return cls(net, card, digest[:16])

    def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
        """One study after the other: a batch gains nothing on a CPU, and each gives the same bytes in any company."""
        return [self._encode_one(study) for study in studies]

    def _encode_one(self, study: Prepared) -> Features:
        volume = study.volume
        return self.encode_canonical(canonical(volume, study.lungs), volume.acquisition, lambda point: nearest_slice(volume, point), study.flags)

    def encode_canonical(self, chest: Canonical, acquisition: Acquisition, slice_of: SliceOf, flags: tuple[str, ...] = ()) -> Features:
        """Encode a volume that is on the canonical grid already; `slice_of` names the slice nearest to a point (LPS, mm)."""
        windows = torch.from_numpy(np.stack([w.apply(chest.hu) for w in ENCODER_WINDOWS]))  # (3, Z, Y, X)
        with torch.inference_mode():
            heat, offset, effusion, level = self._net.proposer(windows[None])
            centers, _ = peaks(heat, offset, PROPOSALS)  # (1, P, 3)
            points = torch.from_numpy(chest.to_patient(centers[0].double().numpy())).float()  # (P, 3) x, y, z
            middle = torch.tensor([chest.midline_mm, chest.center_mm[1], chest.center_mm[2]])
            raw, heads = self._net.roi(crops_at(windows, centers[0]), places(points, middle))
            seen = _posteriors(heads)
            order = torch.argsort(seen["lesion"][:, 0], descending=True, stable=True)
            points, raw, seen = points[order], raw[order], {name: value[order] for name, value in seen.items()}
            sides = [Side.LEFT if float(x) > chest.midline_mm else Side.RIGHT for x in points[:, 0]]
            fluid = effusion[0].sigmoid()  # (2,) right, left
            tokens = torch.cat([_proposal_tokens(seen, raw, sides), _effusion_tokens(fluid), _grid_tokens(level[0]), _condition_tokens(acquisition)])
        return Features(
            array=tokens.numpy().astype(np.float32),
            encoder=self.name,
            version=self.version,
            preprocessing=PREPROCESSING,
            candidates=_candidates(seen, points.double().numpy(), sides, slice_of),
            effusion=tuple(side for side, p in zip((Side.RIGHT, Side.LEFT), fluid.tolist(), strict=True) if p >= EFFUSION_AT),
            flags=flags,
            phantom_only=self.phantom_only,
        )


def nearest_slice(volume: Volume, point_mm: NDArray[np.float64]) -> tuple[str, int]:
    """SOP Instance UID and frame of the slice nearest to a point (LPS, mm)."""
    return volume.named(volume.nearest(point_mm))


def _posteriors(heads: dict[str, Tensor]) -> dict[str, Tensor]:
    """Logits → probabilities; `size` in mm, (P, 1)."""
    seen = {name: heads[name].softmax(dim=1) for name in ("kind", "density", "lobe")}
    return seen | {"lesion": heads["lesion"].sigmoid(), "size": (heads["size"] * 10).clamp(1.0, float(SIZES))}


def _proposal_tokens(seen: dict[str, Tensor], raw: Tensor, sides: list[Side]) -> Tensor:
    """(P, 128): kind of token, score, side, lobe, kind, density, size as a value and as a one-hot of whole millimetres, raw features."""
    count = len(raw)
    side = torch.tensor([[float(s is Side.RIGHT), float(s is Side.LEFT)] for s in sides])
    whole = torch.nn.functional.one_hot(seen["size"].round().long()[:, 0] - 1, SIZES).float()  # (P, 60)
    blocks = [seen["lesion"], side, seen["lobe"], seen["kind"], seen["density"], seen["size"] / SIZES, whole, raw]
    return _framed(PROPOSAL, torch.cat(blocks, dim=1), count)


def _effusion_tokens(fluid: Tensor) -> Tensor:
    """(2, 128): right, left."""
    sure = (fluid >= EFFUSION_AT).float()
    return _framed(EFFUSION, torch.cat([torch.eye(2), fluid[:, None], sure[:, None]], dim=1), 2)


def _grid_tokens(level: Tensor) -> Tensor:
    """(12, 128): the (32, 12, 18, 24) level pooled to 2 × 2 × 3."""
    pooled = torch.nn.functional.adaptive_avg_pool3d(level[None], (2, 2, 3))[0].flatten(1).T  # (12, 32)
    return _framed(GRID, pooled, 12)


def _condition_tokens(acquisition: Acquisition) -> Tensor:
    """(4, 128): kVp, mAs, kernel sharpness and a constant; a missing value has a column of its own."""
    rows = torch.zeros(4, DIM - 4)
    rows[0, 0 if acquisition.kvp is None else 1] = 1.0 if acquisition.kvp is None else acquisition.kvp / 140
    rows[1, 2 if acquisition.mas is None else 3] = 1.0 if acquisition.mas is None else min(acquisition.mas, 300.0) / 300
    rows[1, 4] = float(acquisition.mas is not None and acquisition.mas < LOW_DOSE_MAS)
    digits = "".join(c for c in acquisition.kernel if c.isdigit())[:2]
    rows[2, 6 if digits else 5] = float(digits) / 60 if digits else 1.0
    rows[3, 7] = 1.0
    return _framed(CONDITION, rows, 4)


def _framed(kind: int, block: Tensor, count: int) -> Tensor:
    """(count, 128): four columns for the kind of token, then the block, then zeros."""
    tokens = torch.zeros(count, DIM)
    tokens[:, kind] = 1.0
    tokens[:, 4 : 4 + block.shape[1]] = block
    return tokens


def _candidates(seen: dict[str, Tensor], points: NDArray[np.float64], sides: list[Side], slice_of: SliceOf) -> tuple[Candidate, ...]:
    """Proposals above the floor, numbered from 1 in the order of their tokens."""
    found = []
    for row, (point, side) in enumerate(zip(points, sides, strict=True)):
        if (score := float(seen["lesion"][row, 0])) < MIN_SCORE:
            break
        slice_sop_uid, slice_frame = slice_of(point) or (None, 1)
        found.append(
            Candidate(
                index=row + 1,
                kind=KINDS[int(seen["kind"][row].argmax())],
                center_mm=(round(float(point[0]), 2), round(float(point[1]), 2), round(float(point[2]), 2)),
                side=side,
                lobe=LOBES[int(seen["lobe"][row].argmax())],
                density=DENSITIES[int(seen["density"][row].argmax())],
                size_mm=round(float(seen["size"][row, 0]), 1),
                score=round(score, 4),
                slice_sop_uid=slice_sop_uid,
                slice_frame=slice_frame,
            )
        )
    return tuple(found)
