"""The three architectures with seeded weights, written to disk as their publishers do. Values are those of the public config.json files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.initialization import no_init_weights

# microsoft/resnet-50, google/vit-base-patch16-224 and facebook/sam-vit-base (wanglab/medsam-vit-base has the same sizes)
RESNET_50 = {"num_channels": 3, "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3], "layer_type": "bottleneck"}
VIT_B_16 = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
    "qkv_bias": True,
    "layer_norm_eps": 1e-12,
}
SAM_VIT_B = {
    "hidden_size": 768,
    "output_channels": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
    "image_size": 1024,
    "patch_size": 16,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "qkv_bias": True,
    "mlp_ratio": 4.0,
    "use_abs_pos": True,
    "use_rel_pos": True,
    "window_size": 14,
    "global_attn_indexes": [2, 5, 8, 11],
    "num_pos_feats": 128,
}
NARROW_RESNET = {**RESNET_50, "embedding_size": 8, "hidden_sizes": [8, 12, 16, 24], "depths": [1, 1, 1, 1]}
NARROW_VIT = {**VIT_B_16, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "image_size": 64}
NARROW_SAM = {
    **SAM_VIT_B,
    "hidden_size": 24,
    "output_channels": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 128,
    "window_size": 3,
    "global_attn_indexes": [1],
    "num_pos_feats": 4,
}
NARROW = {"resnet50": NARROW_RESNET, "vit": NARROW_VIT, "medsam": NARROW_SAM}
FULL = {"resnet50": RESNET_50, "vit": VIT_B_16, "medsam": SAM_VIT_B}


def publish(folder: Path, name: str, config: dict[str, Any], *, use: str | None = "candidate", seed: int = 0, pixels: int | None = None) -> Any:
    """Write config.json, model.safetensors, and a card and a preprocessor config where asked; returns the whole model with its head."""
    with no_init_weights():  # they are filled below
        model = _model(name, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():  # transformers leaves SAM's positions at zero and its layers near it
            spread = 0.5 if parameter.dim() == 1 else parameter[0].numel() ** -0.5
            parameter.copy_((1.0 if parameter.dim() == 1 else 0.0) + spread * torch.randn(parameter.shape, generator=generator))
    model.eval().save_pretrained(folder)
    if use is not None:
        (folder / "card.json").write_text(json.dumps({"name": name, "use": use}), encoding="utf-8")
    if pixels is not None:
        given = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "size": {"height": pixels, "width": pixels}, "rescale_factor": 1 / 255}
        (folder / "preprocessor_config.json").write_text(json.dumps(given), encoding="utf-8")
    return model


def _model(name: str, config: dict[str, Any]) -> Any:
    if name == "resnet50":
        return transformers.ResNetForImageClassification(transformers.ResNetConfig(**config))
    if name == "vit":
        return transformers.ViTForImageClassification(transformers.ViTConfig(**config))
    decoder = {"hidden_size": config["output_channels"], "num_attention_heads": 2, "mlp_dim": 16, "iou_head_hidden_dim": 8}
    prompt = {
        "hidden_size": config["output_channels"],
        "image_size": config["image_size"],
        "patch_size": config["patch_size"],
        "image_embedding_size": config["image_size"] // config["patch_size"],
    }
    return transformers.SamModel(transformers.SamConfig(vision_config=config, prompt_encoder_config=prompt, mask_decoder_config=decoder))
