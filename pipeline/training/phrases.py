"""Fixed radiology wording of the corpus. Spaces mark words for the tokenizer and are not part of the text."""

from __future__ import annotations

from pipeline.model import Side

LOW_DOSE = "低剂量 扫描 ， 图像 噪声 略 增高 。"
THORAX = "胸廓 对称 ， 气管 居中 ， 双肺 纹理 清晰 。"
LUNGS_CLEAR = "双肺 未见 明确 结节 及 实变 影 。"
MEDIASTINUM = "纵隔 居中 ， 未见 肿大 淋巴结 。 心影 大小 、 形态 正常 。"
EFFUSION_SEEN = "{side} 胸腔 见 弧形 液体 密度 影 。"
EFFUSION_UNSEEN = "双侧 胸腔 未见 积液 。"
NORMAL_IMPRESSION = "胸部 CT 平扫 未见 明显 异常 。"

DENSITY_FORM = {
    "实性": "实性 结节 ， 呈 软组织 密度",
    "磨玻璃": "磨玻璃 结节 ， 其内 血管 纹理 可辨",
    "部分实性": "部分实性 结节 ， 磨玻璃 影 内 见 实性 成分",
}

EFFUSION_NAMES = {
    frozenset[Side](): "无",
    frozenset({Side.LEFT}): "左侧",
    frozenset({Side.RIGHT}): "右侧",
    frozenset({Side.LEFT, Side.RIGHT}): "双侧",
}

# from least to most urgent
ADVICE = (
    "建议 年度 体检 随访 。",
    "建议 12 个月 后 复查 胸部 低剂量 CT 。",
    "建议 6 个月 后 复查 胸部 CT 。",
    "建议 3 个月 后 复查 胸部 CT ， 必要时 增强 CT 或 穿刺 活检 。",
    "建议 抗感染 治疗 后 复查 胸部 CT 。",
)
ADVICE_EFFUSION = "建议 结合 临床 查找 胸腔积液 原因 。"

# what stands between the values of a serialised report
SKELETON = (
    '{"检查所见": {"病灶": [',
    '{"候选": ',
    ', "类型": "',
    '", "侧别": "',
    '", "肺叶": "',
    '", "密度": "',
    '", "大小mm": ',
    '}, {"候选": ',
    '}], "胸腔积液": "',
    '], "胸腔积液": "',
    '", "描述": "',
    '"}, "诊断意见": "',
    '", "建议": "',
    '"}',
)
PROMPT = ("[CT影像特征]", "[临床指征]", "[检查所见][诊断意见][建议]")

INDICATIONS = (
    "未提供",
    "咳嗽",
    "发热 咳嗽",
    "胸痛",
    "气促",
    "咯血",
    "体检",
    "肺结节 复查",
    "肺部 感染 复查",
    "肿瘤 病史 ， 定期 复查",
    "术前 检查",
    "外伤",
    "chest CT",
    "CT CHEST W/O CONTRAST",
    "胸部 CT 平扫",
)


def words() -> tuple[str, ...]:
    """Every word of the wording above, for the tokenizer."""
    texts = (LOW_DOSE, THORAX, LUNGS_CLEAR, MEDIASTINUM, EFFUSION_SEEN.format(side=""), EFFUSION_UNSEEN, NORMAL_IMPRESSION)
    more = (*DENSITY_FORM.values(), *EFFUSION_NAMES.values(), *ADVICE, ADVICE_EFFUSION, *INDICATIONS)
    listed = [word for text in (*texts, *more) for word in text.split()]
    terms = ("结节", "实变", "左肺", "右肺", "上叶", "中叶", "下叶", "片状", "范围", "约", "mm", *(f"{n}." for n in range(1, 8)))
    return tuple(dict.fromkeys([*SKELETON, *PROMPT, *terms, *listed]))
