"""Everything that is wrong with a checkpoint folder, one sentence per problem: what `ctreport model check` prints and what loading refuses with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pipeline.engine.config import PROJECTORS, ModelConfig
from pipeline.engine.config_faults import faults, rope_faults
from pipeline.engine.headers import AGAIN, Headers, Stored, read_headers
from pipeline.engine.names import FIRST, PROJECTOR, layer_of
from pipeline.engine.published import projector_shapes, shapes
from pipeline.engine.tokenizer import TextTokenizer
from pipeline.engine.tokenizer_faults import OTHER, look_at_tokenizer
from pipeline.errors import ModelMissing

USES = ("phantom-only", "test-only", "candidate", "live")
READ_HERE = ("F64", "F32", "F16", "BF16")  # other formats need the scales that servers apply
PLAIN_ROPE = {"rope_theta": 1e4, "rope_scaling": None}  # in place of a rope with faults: it changes no shape
TORN = "config and weights belong to different models"
OUR_KEYS = {"ct_feature_dim": 1, "ct_placeholder_id": 0, "pad_token_id": 0}  # absent from other people's configs, of no weight to shapes
PLAIN = {"rope_theta": 10000.0, "rope_scaling": None}


@dataclass(frozen=True)
class Look:
    """A checkpoint folder without its weights, and all that is wrong with it."""

    raw: Mapping[str, Any]  # config.json as it stands
    config: ModelConfig | None
    tokenizer: TextTokenizer | None
    card: Mapping[str, object]
    headers: Headers
    problems: tuple[str, ...]


def look(folder: Path, *, served: bool = False) -> Look:
    """Read config, tokenizer, card and the weights' headers. `served`: as a model for SGLang and vLLM, without the limits of the embedded engine."""
    if not folder.is_dir():
        absent = f"the model folder '{folder.name}' does not exist; set CTREPORT_DRAFT_WEIGHTS or run `ctreport train`"
        return Look({}, None, None, {}, Headers(), (absent,))
    raw, unread = _read_config(folder / "config.json")
    config = None if raw is None else _config(raw)
    headers = read_headers(folder)
    tokenizer, garbled = look_at_tokenizer(folder / "tokenizer.json", raw or {}, served=served)
    card, unfit = _read_card(folder / "card.json")
    wrong = [*unread, *(faults(raw, served=served) if raw is not None else ()), *headers.problems]
    wrong += _weight_faults(headers, config, raw or {}, served=served)
    return Look(raw or {}, config, tokenizer, card, headers, tuple(dict.fromkeys([*wrong, *garbled, *unfit])))


def refuse(problems: Sequence[str]) -> None:
    """ModelMissing with the first problem, and how many more there are."""
    if problems:
        more = f" (and {len(problems) - 1} more: `ctreport model check` names them)" if len(problems) > 1 else ""
        raise ModelMissing(problems[0] + more)


def unsound(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    """At most one sentence: which tensors hold NaN or infinite values."""
    bad = [name for name, tensor in tensors if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all())]
    which = f"'{bad[0]}' holds" if len(bad) == 1 else f"'{bad[0]}' and {len(bad) - 1} more hold" if bad else ""
    return [f"{which} NaN or infinite values; the weights are damaged: copy or train them again"] if bad else []


def stored_values(headers: Headers) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of the folder's readable files in float32, one at a time."""
    for path in headers.files:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - not a mapping
                    yield name, file.get_tensor(name).float()
        except (SafetensorError, OSError):
            continue  # the header's problem says it


def _read_config(path: Path) -> tuple[dict[str, Any] | None, list[str]]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, [f"no config.json in the model folder '{path.parent.name}'; point to a checkpoint folder"]
    except (OSError, ValueError) as error:
        return None, [f"config.json is not valid JSON ({error}); export the checkpoint again"]
    if not isinstance(raw, dict):
        return None, ["config.json holds no JSON object; export the checkpoint again"]
    return raw, []


def _config(raw: Mapping[str, Any]) -> ModelConfig | None:
    """The shape that the layers have, as far as the config is complete and in whole numbers."""
    whole = {**OUR_KEYS, **raw}
    if any(rope_faults(raw)):
        whole |= PLAIN  # the fault is said elsewhere, and shapes do not depend on it
    for field in fields(ModelConfig):
        given = whole.get(field.name, None if field.default is MISSING else field.default)
        if field.type == "int" and (not isinstance(given, int) or given < 0):
            return None
    return ModelConfig.of(whole)


def _read_card(path: Path) -> tuple[dict[str, object], list[str]]:
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}, [f"no readable card.json in the model folder '{path.parent.name}'; it must say what the model may be used for"]
    if not isinstance(card, dict) or card.get("use") not in USES:
        return {}, [f'card.json must hold "use", one of {", ".join(USES)}; correct the card']
    return card, []


def _weight_faults(headers: Headers, config: ModelConfig | None, raw: Mapping[str, Any], *, served: bool) -> Iterator[str]:
    if not headers.tensors:
        return
    if not served and (strange := sorted({stored.dtype for stored in headers.tensors.values()} - set(READ_HERE))):
        yield f"{headers.label} holds {', '.join(strange)} values; this engine reads {', '.join(READ_HERE)}: convert the weights"
    if config is None:
        return
    yield from _projector_faults(headers, config, raw)
    wanted = shapes(config)
    missing = sorted(set(wanted) - set(headers.tensors) - headers.lost)
    mtp = [name for name in missing if layer_of(name) >= config.num_hidden_layers]
    if mtp:
        start = f"model.layers.{config.num_hidden_layers}."
        yield f"{headers.label} has no complete MTP layer ({start}*: {len(mtp)} tensors absent); use a checkpoint with its MTP weights"
    if rest := [name for name in missing if name not in mtp]:
        yield f"{headers.label} lacks {len(rest)} tensors, first '{rest[0]}'; {AGAIN}"
    yield from _misshapen(headers.tensors, wanted)


def _misshapen(found: Mapping[str, Stored], wanted: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    wrong = [name for name in wanted if name in found and found[name].shape != wanted[name]]
    if wrong:
        more = f", and {len(wrong) - 1} more tensors differ" if len(wrong) > 1 else ""
        have, want = found[wrong[0]].shape, wanted[wrong[0]]
        yield f"'{wrong[0]}' has shape {have}, config.json asks for {want}{more}; {TORN}"


def _projector_faults(headers: Headers, config: ModelConfig, raw: Mapping[str, Any]) -> Iterator[str]:
    """The projector stands between an encoder and the language model: say which of the two does not fit, and by which numbers."""
    kind = next((kind for kind, name in FIRST.items() if name in headers.tensors), None)
    if kind is None:
        if not any(name.startswith(PROJECTOR) for name in headers.lost):
            yield f"{headers.label} has no {PROJECTOR}*, which takes the encoder's features; use a checkpoint with its projector"
        return
    if config.ct_projector_type not in PROJECTORS:
        return  # the config's fault, said there
    if kind != config.ct_projector_type:
        yield f"the projector in {headers.label} is {kind}, config.json says {config.ct_projector_type}; {OTHER}"
        return
    hidden, columns = headers.tensors[FIRST[kind]].shape
    if "ct_feature_dim" in raw and (columns, hidden) != (config.ct_feature_dim, config.hidden_size):
        yield (
            f"the projector in {headers.label} takes features of {columns} columns and gives {hidden}, config.json asks for "
            f"{config.ct_feature_dim} from the encoder (ct_feature_dim) and {config.hidden_size} for the language model (hidden_size); {TORN}"
        )
        return
    parts = projector_shapes(config)
    if lacking := sorted(set(parts) - set(headers.tensors) - headers.lost):
        yield f"{headers.label} lacks {len(lacking)} tensors, first '{lacking[0]}'; {AGAIN}"
    yield from _misshapen(headers.tensors, {name: shape for name, shape in parts.items() if name != FIRST[kind]})
