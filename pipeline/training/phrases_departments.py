"""Wording for the departments that read a report for one purpose: oncology (malignant signs, basis of staging), pulmonology (size, risk, follow-up).

Spaces mark words for the tokenizer and are not part of the text.
"""

from __future__ import annotations

from collections.abc import Mapping

# --- oncology
ONCOLOGY_NODULE = "{lung} {lobe} {verb} {density} 结节 ， 直径 约 {size} mm"
ONCOLOGY_CONSOLIDATION = "{lung} {lobe} {verb} 实变 影 ， 范围 约 {size} mm ， 边缘 模糊"
SIGNS_SEEN = "恶性 征象 ： {signs}"
SIGNS_UNSEEN = "未见 分叶征 、 毛刺征 及 胸膜牵拉"
ONCOLOGY_CALCIFIED = "其内 见 钙化"
ONCOLOGY_CLEAR = "双肺 未见 明确 结节 及 肿块 。"
# where the lungs hold no lesion
ONCOLOGY_BESIDES = "气管 及 主支气管 通畅 。 双侧 腋窝 未见 肿大 淋巴结 。 双侧 胸膜 未见 增厚 及 结节 。 心包 未见 积液 。"
ONCOLOGY_NODES_UNSEEN = "纵隔 及 肺门 未见 肿大 淋巴结 。"
ONCOLOGY_EFFUSION: Mapping[bool, str] = {False: "双侧 胸腔 未见 积液 。", True: "{side} 胸腔 见 积液 。"}
ONCOLOGY_LIVER_CLEAR = "扫及 肝脏 、 肾上腺 区 未见 明确 占位 。"
ONCOLOGY_BONE = "所示 骨质 未见 明确 破坏 。"
STAGING = "分期 依据 ： {items} 。"
STAGING_SIZE = "肺 内 最大 径 {size} mm"
STAGING_NODES: Mapping[bool, str] = {False: "纵隔 淋巴结 不 大", True: "纵隔 淋巴结 短径 {size} mm"}
STAGING_FLUID: Mapping[bool, str] = {False: "胸腔 无 积液", True: "{side} 胸腔积液"}
ONCOLOGY_NORMAL = "胸部 CT 未见 明确 肿瘤 征象 。"
ONCOLOGY_CONSOLIDATED = "{lung} {lobe} 实变 ， 约 {size} mm 。"

# --- pulmonology
PULMONOLOGY_NODULE = "{lung} {lobe} {density} 结节 ， {size} mm ， {risk} ， {follow}"
PULMONOLOGY_CONSOLIDATION = "{lung} {lobe} 实变 ， {size} mm ， {follow}"
PULMONOLOGY_CLEAR = "双肺 未见 明确 结节 及 实变 。"
PULMONOLOGY_BESIDES = (
    "支气管 走行 自然 ， 未见 扩张 。 双侧 肺门 结构 清晰 。 双侧 胸膜 未见 增厚 、 粘连 。 心影 大小 、 形态 正常 。 所示 骨质 未见 异常 。"
)
PULMONOLOGY_AIRWAYS = "气管 及 主支气管 通畅 。"
PULMONOLOGY_NODES_UNSEEN = "纵隔 未见 肿大 淋巴结 。"
PULMONOLOGY_EFFUSION: Mapping[bool, str] = {False: "胸腔 未见 积液 。", True: "{side} 胸腔积液 。"}
PULMONOLOGY_EMPHYSEMA: Mapping[bool, str] = {False: "双肺 未见 肺气肿 。", True: "{lung} 肺气肿 。"}
PULMONOLOGY_FIBROSIS: Mapping[bool, str] = {False: "双肺 未见 间质 纤维化 。", True: "{lung} 间质 纤维化 。"}
# by urgency
RISKS = ("低危", "低危", "中危", "高危", "", "高危")
FOLLOWS = ("年度 随访", "12 个月 复查", "6 个月 复查", "3 个月 复查", "治疗 后 复查", "尽快 进一步 检查")
PULMONOLOGY_NORMAL = "胸部 CT 未见 明显 异常 。"
PULMONOLOGY_CONCLUDED = " ， {risk}"
