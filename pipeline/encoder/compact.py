"""The compact encoder of the embedded default: one chest volume → (26, 160) features and up to eight candidate regions.

The tokens carry what the heads know (posteriors, whole millimetres) beside raw features: a concept bottleneck, and it is meant to be one.
Sides come from patient coordinates, never from a network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pipeline.encoder.looks import Looks, looks_into
from pipeline.encoder.net import FINE, FINE_MM, FOLD, KINDS, SIZES, SPREAD, CompactNet, crops_at, peaks, places
from pipeline.encoder.outlying import FILE as OUTLYING_FILE
from pipeline.encoder.outlying import Outlying
from pipeline.encoder.prepare import Prepared
from pipeline.encoder.threshold import FILE as THRESHOLD_FILE
from pipeline.encoder.threshold import load as told_at_of
from pipeline.errors import ModelMissing
from pipeline.imaging.canonical import SHAPE, SPACING_MM, Canonical, canonical
from pipeline.imaging.volume import Acquisition, Volume
from pipeline.imaging.windows import ENCODER_WINDOWS
from pipeline.model import LIVE, Candidate, Features, Side

WEIGHTS = Path(__file__).parent / "weights"
NAME = "compact"
OUTLYING = "模型未在此类图像上验证"  # flag of a volume unlike those of training
PEAKS = 24  # places that are looked at closely
PROPOSALS = 8  # of which so many are told
DIM = 160
TOKENS = PROPOSALS + 2 + 12 + 4
APART_MM = 10.0
SPREAD_AT = 0.5  # from here on a side is said to have it
SURE_AT = 0.5
LOW_DOSE_MAS = 60.0
IN_LUNG = KINDS[:2]
DENSITIES = ("实性", "磨玻璃", "部分实性")
LOBES = ("上叶", "中叶", "下叶")
MARGINS = ("光滑", "分叶", "毛刺", "模糊")
# one column block per kind of token, so that a linear projector can tell them apart
PROPOSAL, SIDE, GRID, CONDITION = range(4)
PREPROCESSING = hashlib.sha256(repr((SHAPE, SPACING_MM, FINE, FINE_MM, ENCODER_WINDOWS, LOW_DOSE_MAS)).encode()).hexdigest()[:16]


SliceOf = Callable[[NDArray[np.float64]], tuple[str, int] | None]  # a point (LPS, mm) → the slice that shows it


class CompactEncoder:
    """One set of weights in memory. Deterministic: the same files give the same bytes."""

    def __init__(self, net: CompactNet, card: dict[str, Any], version: str, told_at: float, outlying: Outlying | None = None) -> None:
        self._net = net.eval()
        self._outlying = outlying
        self._told_at = told_at  # weaker proposals count as nothing
        self.card = card
        self.name = NAME
        self.version = version
        self.preprocessing = PREPROCESSING
        self.dim = DIM
        self.batch = 1  # on a processor a study gains nothing from company
        self.phantom_only = card.get("use") != LIVE

    @classmethod
    def load(cls, folder: Path, told_at: float | None = None) -> Self:
        """Weights and card of a folder; `told_at` instead of its own threshold. Raises ModelMissing with what, where and what to do."""
        torch.set_num_threads(1)  # process-wide: sums in one order, so that a study gives the same bytes anywhere
        weights = folder / "compact.safetensors"
        try:
            card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
            tensors = load_file(weights)
            threshold = told_at_of(folder) if told_at is None else told_at
            net = CompactNet()
            net.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        except (OSError, ValueError, KeyError, SafetensorError, RuntimeError) as error:
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
        version = _version(weights, folder / OUTLYING_FILE, folder / THRESHOLD_FILE)
        return cls(net, card, version, threshold, Outlying.load(folder))

    def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
        """One study after the other: a batch gains nothing on a CPU, and each gives the same bytes in any company."""
        return [self._encode_one(study) for study in studies]

    def _encode_one(self, study: Prepared) -> Features:
        volume = study.volume
        chest = canonical(volume, study.lungs)
        found = self.encode_canonical(chest, volume.acquisition, looks_into(volume), lambda point: nearest_slice(volume, point), study.flags)
        if found.ood is None or self._outlying is None or found.ood <= self._outlying.limit:
            return found
        return replace(found, flags=(*found.flags, OUTLYING))

    def encode_canonical(self, chest: Canonical, acquisition: Acquisition, looks: Looks, slice_of: SliceOf, flags: tuple[str, ...] = ()) -> Features:
        """Encode a volume that is on the canonical grid already.

        `looks` gives the close look at points, `slice_of` names the slice nearest to a point (LPS, mm).
        """
        windows = shown_to_proposer(chest.hu)  # (16, 56, 72, 96)
        with torch.inference_mode():
            heat, offset, spread, level = self._net.proposer(windows[None])
            centers, _ = peaks(heat, offset, PEAKS)  # (1, P, 3)
            points = chest.to_patient(centers[0].double().numpy())  # (P, 3) x, y, z
            middle = torch.tensor([chest.midline_mm, chest.center_mm[1], chest.center_mm[2]])
            place = places(torch.from_numpy(points).float(), middle)
            raw, heads = self._net.roi(windowed(looks(points)).transpose(0, 1), crops_at(windows, centers[0]), place)
            seen = posteriors(heads)
            alone = distinct(points, seen["lesion"][:, 0].tolist(), seen["size"][:, 0].tolist())[:, None]
            seen["lesion"] = torch.where(seen["lesion"] >= self._told_at, seen["lesion"] * alone, 0.0)
            order = told_order(seen["lesion"][:, 0], seen["size"][:, 0])
            points, raw, seen = points[order.numpy()], raw[order], {name: value[order] for name, value in seen.items()}
            sides = [Side.LEFT if float(x) > chest.midline_mm else Side.RIGHT for x in points[:, 0]]
            told = spread[0].sigmoid()  # (3, 2) right, left
            tokens = torch.cat([_proposal_tokens(seen, raw, sides), _side_tokens(told), _grid_tokens(level[0]), _condition_tokens(acquisition)])
            pooled = pooled_level(level[0])
        having = {name: _sides_with(row) for name, row in zip(SPREAD, told, strict=True)}
        return Features(
            array=tokens.numpy().astype(np.float32),
            encoder=self.name,
            version=self.version,
            preprocessing=PREPROCESSING,
            candidates=_candidates(seen, points, sides, slice_of),
            effusion=having["effusion"],
            emphysema=having["emphysema"],
            fibrosis=having["fibrosis"],
            ood=None if self._outlying is None else round(self._outlying.distance(pooled), 2),
            flags=flags,
            phantom_only=self.phantom_only,
        )

    def pooled(self, chest: Canonical) -> NDArray[np.float64]:
        """(64,) how a volume on the canonical grid looks to the proposer as a whole."""
        with torch.inference_mode():
            return pooled_level(self._net.proposer(shown_to_proposer(chest.hu)[None])[3][0])


def _version(*files: Path) -> str:
    """Changes with any of the files: features hold the distance and follow the threshold as well as what the networks say."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()[:16]


def windowed(hu: NDArray[np.float32]) -> Tensor:
    """HU of any shape → the encoder's windows (4, …)."""
    return torch.from_numpy(np.stack([w.apply(hu) for w in ENCODER_WINDOWS]))


def folded(hu: NDArray[np.float32]) -> NDArray[np.float32]:
    """(Z, Y, X) → (4, Z, Y/2, X/2): neighbours within a slice side by side, so that the networks have few places and see all there is."""
    return np.ascontiguousarray(torch.nn.functional.pixel_unshuffle(torch.from_numpy(hu)[:, None], FOLD).transpose(0, 1).numpy())


def shown_to_proposer(hu: NDArray[np.float32]) -> Tensor:
    """A volume on the canonical grid as the proposer reads it, (16, 56, 72, 96)."""
    return windowed(folded(hu)).flatten(0, 1)


def nearest_slice(volume: Volume, point_mm: NDArray[np.float64]) -> tuple[str, int]:
    """SOP Instance UID and frame of the slice nearest to a point (LPS, mm)."""
    return volume.named(volume.nearest(point_mm))


def posteriors(heads: dict[str, Tensor]) -> dict[str, Tensor]:
    """Logits → probabilities; `size` in mm, (P, 1)."""
    seen = {name: heads[name].softmax(dim=1) for name in ("kind", "density", "lobe", "margin")}
    seen |= {name: heads[name].sigmoid() for name in ("lesion", "calcified", "retraction")}
    return seen | {"size": (heads["size"] * 10).clamp(1.0, float(SIZES))}


def told_order(scores: Tensor, sizes_mm: Tensor) -> Tensor:
    """Which of P proposals are told, (PROPOSALS,): the surest, the largest of them first, as reports name them."""
    best = torch.argsort(scores, descending=True, stable=True)[:PROPOSALS]
    size = torch.where(scores[best] > 0, sizes_mm[best].round(), 0.0)
    return best[torch.argsort(size, descending=True, stable=True)]


def distinct(points: NDArray[np.float64], scores: list[float], sizes_mm: list[float]) -> Tensor:
    """(P,) 1 for a proposal that stands alone, 0 for one that lies within a better one: two peaks of one lesion are one lesion."""
    kept: list[int] = []
    for row in sorted(range(len(scores)), key=lambda n: (-scores[n], n)):
        if all(np.linalg.norm(points[row] - points[other]) > max(APART_MM, sizes_mm[other] / 2) for other in kept):
            kept.append(row)
    return torch.tensor([float(row in kept) for row in range(len(scores))])


def pooled_level(level: Tensor) -> NDArray[np.float64]:
    """(64,) means and peaks of a level (32, D, H, W): how the whole volume looks to the proposer."""
    return torch.cat([level.mean((1, 2, 3)), level.amax((1, 2, 3))]).double().numpy()


def _sides_with(told: Tensor) -> tuple[Side, ...]:
    """Of the probabilities (2,) right, left: which sides have it."""
    return tuple(side for side, p in zip((Side.RIGHT, Side.LEFT), told.tolist(), strict=True) if p >= SPREAD_AT)


def _proposal_tokens(seen: dict[str, Tensor], raw: Tensor, sides: list[Side]) -> Tensor:
    """(P, 160): score, side, every head as probability and as its best answer, whole millimetres as a one-hot, raw features."""
    side = torch.tensor([[float(s is Side.RIGHT), float(s is Side.LEFT)] for s in sides])
    blocks = [seen["lesion"], (seen["lesion"] >= SURE_AT).float(), side]
    for name in ("kind", "lobe", "density", "margin"):
        blocks += [seen[name], torch.nn.functional.one_hot(seen[name].argmax(dim=1), seen[name].shape[1]).float()]
    for name in ("calcified", "retraction"):
        blocks += [seen[name], (seen[name] >= SURE_AT).float()]
    whole = torch.nn.functional.one_hot(seen["size"].round().long()[:, 0] - 1, SIZES).float()  # (P, 60)
    return _framed(PROPOSAL, torch.cat([*blocks, seen["size"] / SIZES, whole, raw], dim=1), len(raw))


def _side_tokens(told: Tensor) -> Tensor:
    """(2, 160): right, left; each thing that is told per side as probability and as yes or no."""
    return _framed(SIDE, torch.cat([torch.eye(2), told.T, (told.T >= SPREAD_AT).float()], dim=1), 2)


def _grid_tokens(level: Tensor) -> Tensor:
    """(12, 160): the (32, 14, 18, 24) level pooled to 2 × 2 × 3."""
    pooled = torch.nn.functional.adaptive_avg_pool3d(level[None], (2, 2, 3))[0].flatten(1).T  # (12, 32)
    return _framed(GRID, pooled, 12)


def _condition_tokens(acquisition: Acquisition) -> Tensor:
    """(4, 160): kVp, mAs, kernel sharpness, contrast; a missing value has a column of its own."""
    rows = torch.zeros(4, DIM - 4)
    rows[0, 0 if acquisition.kvp is None else 1] = 1.0 if acquisition.kvp is None else acquisition.kvp / 140
    rows[1, 2 if acquisition.mas is None else 3] = 1.0 if acquisition.mas is None else min(acquisition.mas, 300.0) / 300
    rows[1, 4] = float(acquisition.mas is not None and acquisition.mas < LOW_DOSE_MAS)
    digits = "".join(c for c in acquisition.kernel if c.isdigit())[:2]
    rows[2, 6 if digits else 5] = float(digits) / 60 if digits else 1.0
    rows[3, 7] = 1.0
    rows[3, 10 if acquisition.contrast else 9] = 1.0  # a header that names no agent says as much as one that denies it
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
        if float(seen["lesion"][row, 0]) <= 0:
            break
        one = {name: value[row] for name, value in seen.items()}
        found.append(_candidate(row + 1, one, point, side, slice_of(point)))
    return tuple(found)


def _candidate(index: int, one: dict[str, Tensor], point: NDArray[np.float64], side: Side, at: tuple[str, int] | None) -> Candidate:
    """One proposal in words; what only lungs have is None elsewhere."""
    kind = KINDS[int(one["kind"].argmax())]
    lung = kind in IN_LUNG
    slice_sop_uid, slice_frame = at or (None, 1)
    return Candidate(
        index=index,
        kind=kind,
        center_mm=(round(float(point[0]), 2), round(float(point[1]), 2), round(float(point[2]), 2)),
        side=side,
        lobe=LOBES[int(one["lobe"].argmax())] if lung else None,
        density=DENSITIES[int(one["density"].argmax())] if lung else None,
        size_mm=round(float(one["size"]), 1),
        score=round(float(one["lesion"]), 4),
        slice_sop_uid=slice_sop_uid,
        slice_frame=slice_frame,
        margin=MARGINS[int(one["margin"].argmax())] if lung else None,
        calcified=bool(one["calcified"] >= SURE_AT) if lung else None,
        retraction=bool(one["retraction"] >= SURE_AT) if lung else None,
    )
