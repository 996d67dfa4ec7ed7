"""Published vision networks from a folder or the hub: safetensors only, nothing that arrives is executed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor

from pipeline.errors import ModelMissing
from pipeline.model import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel

PREPROCESSOR = "preprocessor_config.json"
HUB = "hub:"  # before a hub id in CTREPORT_ENCODER_WEIGHTS; anything else is a folder and stays on this machine
PICKLED = ("*.bin", "*.pth", "*.pt", "*.ckpt", "*.pkl")
CONVERT = (
    "weights are read as safetensors only, a pickle could run a program: on a machine that trusts the file, load it with transformers' "
    "from_pretrained and write it with save_pretrained, then set CTREPORT_ENCODER_WEIGHTS to the new folder"
)
LOADING = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError, SafetensorError, StrictDataclassError)
Kind = Literal["ResNetModel", "ViTModel", "SamVisionModel"]


@dataclass(frozen=True, slots=True)
class Normalisation:
    """How pixels of 0 … 1 become what the network was trained on: (pixel · scale − mean) / std per channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int  # pixels along each side
    scale: float = 1.0
    source: str = field(default="", repr=False)  # where the values are from

    def apply(self, pixels: Tensor) -> Tensor:
        """(…, 3, S, S) → the same shape."""
        shape = (len(self.mean), 1, 1)
        return (pixels * self.scale - torch.tensor(self.mean).reshape(shape)) / torch.tensor(self.std).reshape(shape)


@dataclass(frozen=True)
class Published:
    """A network as it was published, in float32 on the processor, with everything that says what it is."""

    network: PreTrainedModel
    card: Mapping[str, object]
    normalisation: Normalisation
    digest: str  # of names, shapes and values of the weights that are used
    where: str  # folder name or hub id
    folder: Path | None  # None for a hub id

    @property
    def phantom_only(self) -> bool:
        """True unless the card beside the weights says `live`: a folder without a card, and whatever comes from the hub, is not registered."""
        return self.card.get("use") != LIVE


def load(weights: str, kind: Kind, default: Normalisation) -> Published:
    """The network of a folder, or of `hub:owner/name`. Raises ModelMissing: what is absent or does not fit, and what to do."""
    hub = weights.startswith(HUB)
    where = weights.removeprefix(HUB)
    if not hub:
        _check_folder(Path(where))
    network = _network(where, kind, hub)
    given = _json_of(_hub_file(where, PREPROCESSOR) if hub else Path(where) / PREPROCESSOR)
    return Published(
        network=network,
        card={} if hub else _json_of(Path(where) / "card.json"),  # whoever publishes weights does not register them here
        normalisation=default if not given else normalisation(given, default),
        digest=digest(network.state_dict()),
        where=_named(where, hub),
        folder=None if hub else Path(where),
    )


def normalisation(given: Mapping[str, Any], default: Normalisation) -> Normalisation:
    """What a `preprocessor_config.json` says; a key that it lacks is as published. Raises ModelMissing where a value is no such thing."""
    try:
        size = given.get("size", default.size)
        side = next(int(size[key]) for key in ("height", "shortest_edge", "longest_edge") if key in size) if isinstance(size, dict) else int(size)
        normal = bool(given.get("do_normalize", True))
        mean, std = (tuple(float(v) for v in given.get(key, own)) for key, own in (("image_mean", default.mean), ("image_std", default.std)))
        gray = 255.0 * float(given.get("rescale_factor", 1 / 255)) if given.get("do_rescale", True) else 255.0
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0 or side < 1:
            raise ValueError("three means, three positive deviations and a size are needed")
    except (TypeError, ValueError, StopIteration) as error:
        raise ModelMissing(f"preprocessor_config.json cannot be understood ({error}); copy it anew from where the weights are from") from None
    plain = ((0.0,) * 3, (1.0,) * 3)
    return Normalisation(*((mean, std) if normal else plain), size=side, scale=gray, source=PREPROCESSOR)


def digest(state: Mapping[str, Tensor]) -> str:
    """16 hex digits over names, shapes and values, in the order of names."""
    total = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        total.update(f"{name}\0{tuple(tensor.shape)}\0{tensor.dtype}\0".encode() + tensor.numpy().tobytes())
    return total.hexdigest()[:16]


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ModelMissing(
            f"the encoder's folder '{folder.name}' does not exist; set CTREPORT_ENCODER_WEIGHTS to a folder with config.json and "
            f"model.safetensors, or to {HUB}owner/name"
        )
    if not (folder / "config.json").is_file():
        raise ModelMissing(f"no config.json in the encoder's folder '{folder.name}'; copy it there from where the weights are from")
    if (folder / "adapter_config.json").is_file():  # transformers would load the base model that it names instead
        raise ModelMissing(
            f"the encoder's folder '{folder.name}' holds an adapter; merge it into its base model and set CTREPORT_ENCODER_WEIGHTS to that"
        )
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    if pickled:
        raise ModelMissing(f"the encoder's folder '{folder.name}' holds '{pickled[0]}' and no safetensors; {CONVERT}")
    raise ModelMissing(f"no model.safetensors in the encoder's folder '{folder.name}'; copy the weights there or set CTREPORT_ENCODER_WEIGHTS")


def _network(where: str, kind: Kind, hub: bool) -> PreTrainedModel:
    """Every tensor that the network has comes from the file: transformers would fill up missing ones with random numbers."""
    try:
        network, told = _from_pretrained(where, kind, hub)
    except LOADING as error:
        raise ModelMissing(
            f"the encoder '{_named(where, hub)}' cannot be loaded as {kind} ({type(error).__name__}); copy the weights again, set "
            f"CTREPORT_ENCODER_NAME to what they are, and if there are only pickled ones: {CONVERT}"
        ) from error
    missing = sorted(str(name) for name in (*told["missing_keys"], *(key[0] for key in told["mismatched_keys"])))
    if missing:
        raise ModelMissing(
            f"the encoder '{_named(where, hub)}' lacks {len(missing)} tensors of {kind}, first '{missing[0]}'; copy the weights again or set "
            "CTREPORT_ENCODER_NAME to what they are"
        )
    if any(not bool(torch.isfinite(tensor).all()) for tensor in network.state_dict().values()):
        raise ModelMissing(f"the weights of encoder '{_named(where, hub)}' hold NaN or infinite values; copy them again")
    return network


def _from_pretrained(where: str, kind: Kind, hub: bool) -> tuple[PreTrainedModel, dict[str, Any]]:
    import transformers  # heavy, and only the process that encodes needs it

    # without it transformers asks a service on the hub to convert a pickle, and takes what an open pull request holds
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
    with _quiet():
        network, told = getattr(transformers, kind).from_pretrained(
            where,
            local_files_only=not hub,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
            attn_implementation="eager" if kind == "ResNetModel" else "sdpa",  # said here, so that a config.json cannot name a kernel to download
            output_loading_info=True,
            **({"add_pooling_layer": False} if kind == "ViTModel" else {}),
        )
    return network.eval().requires_grad_(False), told


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers reports each tensor that is not needed (heads, decoders); what is missing is looked at here."""
    from transformers.utils import logging as told

    before = told.get_verbosity()
    told.set_verbosity(logging.ERROR)
    told.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers leaves it bare
    try:
        yield
    finally:
        told.set_verbosity(before)


def _json_of(path: Path | None) -> dict[str, Any]:
    """A small file beside the weights; empty where there is none."""
    if path is None or not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelMissing(f"{path.name} beside the encoder's weights cannot be read ({type(error).__name__}); copy it anew") from error
    if not isinstance(content, dict):
        raise ModelMissing(f"{path.name} beside the encoder's weights is no JSON object; copy it anew")
    return content


def _hub_file(hub_id: str, name: str) -> Path | None:
    """A file of the hub id as transformers keeps it; None where it has none."""
    from transformers.utils.hub import cached_file

    found = cached_file(hub_id, name, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False)
    return Path(found) if found else None


def _named(where: str, hub: bool) -> str:
    return where if hub else Path(where).name
