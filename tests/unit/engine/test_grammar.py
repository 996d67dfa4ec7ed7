"""The grammar allows exactly the serialised schema, and can be taken back."""

from __future__ import annotations

import json

import pytest
import torch

from pipeline.drafting.schema import schema_text
from pipeline.engine.grammar import Grammar
from pipeline.engine.seeded import WORDS
from pipeline.engine.tokenizer import TextTokenizer, build
from pipeline.errors import BadInput

TOKENIZER = TextTokenizer(build(WORDS))
REPORT = (
    '{"检查所见": {"病灶": [{"候选": 1, "类型": "结节", "侧别": "右肺", "肺叶": "上叶", "密度": "实性", "大小mm": 12, '
    '"边缘": "光滑", "内部结构": "均匀", "周围改变": "无"}], "淋巴结": [], "肝脏": [], "胸腔积液": "无", "肺气肿": "无", "纤维化": "无", '
    '"描述": "右肺上叶见结节。"}, "诊断意见": "结节", "建议": "随访"}'
)


def follow(grammar: Grammar, ids: list[int]) -> bool:
    """Lead a grammar through tokens; True when it is finished behind them."""
    for token in ids:
        grammar.consume(token)
    return grammar.finished


def test_a_report_passes_token_by_token_and_finishes_at_its_end() -> None:
    grammar = Grammar(TOKENIZER, schema_text())
    for token in TOKENIZER.encode(REPORT):
        assert not grammar.finished
        assert grammar.mask()[token] == 0
        grammar.consume(token)
    assert grammar.finished


@pytest.mark.parametrize("wrong", ['{"检查所见":{', '{ "检查所见"', '{"诊断意见', '{"检查所见": {"病灶":\n'])
def test_other_spacing_or_order_is_forbidden(wrong: str) -> None:
    grammar = Grammar(TOKENIZER, schema_text())
    with pytest.raises(BadInput):
        follow(grammar, TOKENIZER.encode(wrong))


def test_a_rollback_restores_the_mask_even_from_the_end() -> None:
    grammar = Grammar(TOKENIZER, schema_text())
    ids = TOKENIZER.encode(REPORT)
    assert not follow(grammar, ids[:-4])
    before = grammar.mask()
    assert follow(grammar, ids[-4:])
    grammar.rollback(4)
    assert torch.equal(grammar.mask(), before)


def test_special_tokens_are_never_allowed_inside() -> None:
    mask = Grammar(TOKENIZER, json.dumps({"type": "string"})).mask()
    assert all(mask[index] == -torch.inf for index in (TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.ct_id, TOKENIZER.eos_id))
