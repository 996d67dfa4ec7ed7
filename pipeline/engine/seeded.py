"""A tiny checkpoint with random weights for tests: it obeys the grammar and knows nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from pipeline.engine.checkpoint import save
from pipeline.engine.config import ModelConfig, Projector
from pipeline.engine.model import Model
from pipeline.engine.tokenizer import TextTokenizer, build

CLOSING_BIAS = 4.0  # makes a random model close its strings after a few tokens instead of filling them

# pieces of the report's JSON and a few words, so that a seeded answer has about as many tokens as a trained one
WORDS = (
    *('{"检查所见": {"病灶": [', '{"候选": ', ', "类型": "', '", "侧别": "', '", "肺叶": "', '", "密度": "', '", "大小mm": '),
    *("}, ", '}], "胸腔积液": "', '], "胸腔积液": "', '", "描述": "', '"}, "诊断意见": "', '", "建议": "', '"}'),
    *("结节", "实变", "左肺", "右肺", "上叶", "中叶", "下叶", "实性", "磨玻璃", "部分实性", "无", "左侧", "右侧", "双侧"),
    *("[CT影像特征]", "[临床指征]", "[检查所见]", "[诊断意见]", "[建议]", "未提供", "胸廓", "对称", "纹理", "清晰", "可见", "未见", "异常"),
    *("，", "。", "；", "、", "纵隔", "心影", "大小", "形态", "正常", "建议", "随访", "复查", "个月", "后", "低剂量", "扫描", "mm"),
)


def seeded_model(config: ModelConfig, tokenizer: TextTokenizer, seed: int = 0) -> Model:
    """A model with random weights from `seed` that prefers to close strings; the global random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Model(config)
        with torch.no_grad():
            for tensor in model.parameters():
                if tensor.dim() == 2:
                    tensor.normal_(std=1.2 * tensor.shape[1] ** -0.5)
            model.model.embed_tokens.weight.normal_(std=1.0)
            model.model.embed_tokens.weight[:, 0] = 4.0  # a constant direction through every layer …
            closing = [index for index in range(tokenizer.size) if tokenizer.piece(index)[:1] == b'"']
            model.lm_head.weight[closing, 0] += CLOSING_BIAS / 4.0  # … that the head reads as "close the string"
    return model.eval().requires_grad_(False)


def tiny_config(tokenizer: TextTokenizer, feature_dim: int, projector: Projector = "linear", depths: int = 1) -> ModelConfig:
    """Two main layers and the MTP layers, 64 wide."""
    return ModelConfig(
        vocab_size=tokenizer.size,
        ct_feature_dim=feature_dim,
        ct_placeholder_id=tokenizer.ct_id,
        eos_token_id=tokenizer.eos_id,
        bos_token_id=tokenizer.bos_id,
        pad_token_id=tokenizer.pad_id,
        hidden_size=64,
        intermediate_size=96,
        moe_intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        q_lora_rank=32,
        kv_lora_rank=24,
        qk_nope_head_dim=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        n_routed_experts=4,
        ct_projector_type=projector,
        num_nextn_predict_layers=depths,
    )


def write_seeded_checkpoint(
    folder: Path, *, feature_dim: int, seed: int = 0, words: Iterable[str] = WORDS, projector: Projector = "linear", depths: int = 1
) -> str:
    """Write a `test-only` checkpoint with random weights into `folder` and return its digest."""
    tokenizer = TextTokenizer(build(words))
    model = seeded_model(tiny_config(tokenizer, feature_dim, projector, depths), tokenizer, seed)
    card = {"name": "seeded", "use": "test-only", "seed": seed}
    return save(folder, model, tokenizer, card, "# Seeded weights\n\nRandom weights for tests. They know nothing and never draft a report.\n")
