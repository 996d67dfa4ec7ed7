"""Radiology wording of the corpus: what a report says of each region. Spaces mark words for the tokenizer and are not part of the text.

Every table is keyed by something that the model can see (why the scan was asked for, how it was made, what the lesion is like), never by a lot.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.training.reasons import Reason

UNKNOWN, SCREENING, FOLLOW_UP, INFECTION, TUMOUR, COMPLAINT = Reason
ByReason = Mapping[Reason, str]

LOW_DOSE: ByReason = dict.fromkeys(Reason, "低剂量 扫描 ， 图像 噪声 略 增高 。") | {
    SCREENING: "低剂量 筛查 扫描 ， 图像 噪声 略 增高 ， 不 影响 诊断 。",
    FOLLOW_UP: "低剂量 扫描 ， 图像 质量 可 满足 复查 要求 。",
}
CONTRAST: ByReason = dict.fromkeys(Reason, "增强 扫描 ， 胸部 大血管 显影 良好 。") | {
    TUMOUR: "增强 扫描 ， 纵隔 大血管 显影 良好 ， 分界 清楚 。",
}
THORAX: ByReason = {
    UNKNOWN: "胸廓 对称 ， 气管 居中 。",
    SCREENING: "双侧 胸廓 对称 ， 气管 及 主支气管 通畅 。",
    FOLLOW_UP: "胸廓 对称 ， 气管 、 支气管 通畅 。",
    INFECTION: "气管 居中 ， 气管 及 主要 支气管 通畅 。",
    TUMOUR: "胸廓 无 畸形 ， 气管 居中 ， 管腔 通畅 。",
    COMPLAINT: "胸廓 形态 对称 ， 气管 居中 。",
}
# (sharp kernel, low dose)
TEXTURE: Mapping[tuple[bool, bool], str] = {
    (False, False): "双肺 纹理 清晰 。",
    (True, False): "双肺 纹理 清晰 ， 走行 自然 。",
    (False, True): "双肺 纹理 尚 清晰 。",
    (True, True): "双肺 纹理 尚 清晰 ， 分布 自然 。",
}
LUNGS_CLEAR: ByReason = {
    UNKNOWN: "双肺 未见 明确 结节 及 实变 影 。",
    SCREENING: "双肺 未见 结节 及 肿块 。",
    FOLLOW_UP: "双肺 未见 明确 结节 影 。",
    INFECTION: "双肺 未见 明确 实变 及 渗出 影 。",
    TUMOUR: "双肺 未见 明确 结节 、 肿块 影 。",
    COMPLAINT: "双肺 未见 明确 结节 、 实变 及 渗出 影 。",
}
REST_CLEAR: ByReason = dict.fromkeys(Reason, "余 双肺 未见 明确 结节 及 实变 影 。") | {
    SCREENING: "余 双肺 未见 结节 。",
    INFECTION: "余 双肺 未见 明确 实变 影 。",
    TUMOUR: "余 双肺 未见 明确 结节 影 。",
}
# said besides where the lungs hold no lesion
HILA_CLEAR = "双侧 肺门 结构 清晰 ， 支气管 走行 自然 。 主动脉 及 肺动脉 未见 增宽 。"
MEDIASTINUM: ByReason = {
    UNKNOWN: "纵隔 居中 ， 未见 肿大 淋巴结 。",
    SCREENING: "纵隔 居中 ， 纵隔 内 未见 肿大 淋巴结 。",
    FOLLOW_UP: "纵隔 无 移位 ， 未见 肿大 淋巴结 。",
    INFECTION: "纵隔 居中 ， 未见 明显 肿大 淋巴结 。",
    TUMOUR: "纵隔 及 双侧 肺门 未见 肿大 淋巴结 。",
    COMPLAINT: "纵隔 居中 ， 纵隔 及 肺门 未见 明显 肿大 淋巴结 。",
}
HEART: ByReason = {
    UNKNOWN: "心影 大小 、 形态 正常 。",
    SCREENING: "心脏 大小 正常 。",
    FOLLOW_UP: "心影 不 大 。",
    INFECTION: "心影 大小 正常 。",
    TUMOUR: "心脏 形态 正常 ， 心包 未见 积液 。",
    COMPLAINT: "心影 大小 、 形态 正常 ， 心包 未见 积液 。",
}
EFFUSION_UNSEEN: ByReason = dict.fromkeys(Reason, "双侧 胸腔 未见 积液 。") | {
    SCREENING: "双侧 胸膜 无 增厚 ， 胸腔 未见 积液 。",
    TUMOUR: "双侧 胸膜 光滑 ， 胸腔 未见 积液 。",
    COMPLAINT: "双侧 胸腔 未见 明显 积液 。",
}
EFFUSION_SEEN: ByReason = dict.fromkeys(Reason, "{side} 胸腔 见 弧形 液体 密度 影 。") | {
    INFECTION: "{side} 胸腔 见 积液 ， 呈 弧形 液体 密度 影 。",
    TUMOUR: "{side} 胸腔 见 弧形 液体 密度 影 ， 胸膜 未见 明确 结节 。",
}
EMPHYSEMA: Mapping[bool, str] = {  # by sharp kernel
    False: "{lung} 透亮度 增高 ， 呈 肺气肿 改变 。",
    True: "{lung} 见 多发 小 透亮区 ， 呈 肺气肿 改变 。",
}
FIBROSIS: Mapping[bool, str] = {
    False: "{lung} 胸膜下 见 网格 状 高密度 影 ， 呈 肺 间质 纤维化 改变 。",
    True: "{lung} 胸膜下 见 细 网格 影 及 条索 影 ， 呈 肺 间质 纤维化 改变 。",
}
NODE = "纵隔 {verb} 肿大 淋巴结 ， 短径 约 {size} mm 。"
ABDOMEN: ByReason = dict.fromkeys(Reason, "扫及 肝脏 、 脾脏 未见 明确 异常 。") | {
    SCREENING: "扫及 上腹部 肝 、 脾 未见 异常 。",
    TUMOUR: "扫及 肝脏 、 脾脏 未见 明确 占位 。",
}
SPLEEN = "脾脏 未见 明确 异常 。"
LIVER: Mapping[str, str] = {
    "囊肿": "肝 内 {verb} 类圆形 囊性 低密度 影 ， 边界 清楚 ， 直径 约 {size} mm 。",
    "血管瘤": "肝 内 {verb} 类圆形 稍 低密度 影 ， 边界 清楚 ， 直径 约 {size} mm ， 考虑 血管瘤 。",
    "低密度灶": "肝 内 {verb} 低密度 灶 ， 边界 欠清 ， 直径 约 {size} mm 。",
}
BONE: ByReason = {
    UNKNOWN: "所示 骨质 未见 明确 破坏 。",
    SCREENING: "所示 骨质 结构 完整 。",
    FOLLOW_UP: "所示 骨质 未见 异常 。",
    INFECTION: "所示 胸廓 骨质 未见 异常 。",
    TUMOUR: "所示 骨骼 未见 明确 骨质 破坏 。",
    COMPLAINT: "所示 肋骨 及 胸椎 未见 明确 骨折 。",
}

# of a lesion, by its place in the list
VERBS = ("见", "另 见", "亦 见")
# by density; whether the lesion is at least LARGE_MM
LARGE_MM = 15
DENSITY_FORM: Mapping[tuple[str, bool], str] = {
    ("实性", False): "呈 软组织 密度",
    ("实性", True): "呈 类圆形 软组织 密度",
    ("磨玻璃", False): "其内 血管 纹理 可辨",
    ("磨玻璃", True): "其内 血管 影 清晰 可辨",
    ("部分实性", False): "磨玻璃 影 内 见 实性 成分",
    ("部分实性", True): "磨玻璃 影 内 见 实性 成分 ， 密度 不 均匀",
}
MARGIN_FORM: Mapping[tuple[str, bool], str] = {
    ("光滑", False): "边缘 光滑",
    ("光滑", True): "边界 清楚 ， 边缘 光滑",
    ("分叶", False): "边缘 浅 分叶",
    ("分叶", True): "边缘 见 分叶征",
    ("毛刺", False): "边缘 见 短 毛刺",
    ("毛刺", True): "边缘 见 毛刺征",
}
CALCIFIED: Mapping[bool, str] = {False: "其内 见 点状 钙化", True: "其内 见 斑片状 钙化"}
RETRACTION: Mapping[bool, str] = {False: "邻近 胸膜 牵拉", True: "邻近 胸膜 牵拉 凹陷"}
KEY = "病灶 {key} ： "  # before each sentence about something listed: which of the proposals it is
CONSOLIDATION: ByReason = dict.fromkeys(Reason, "{lung} {lobe} {verb} 片状 实变 影 ， 范围 约 {size} mm ， 边缘 模糊") | {
    INFECTION: "{lung} {lobe} {verb} 大片 实变 影 ， 密度 较 均匀 ， 边缘 模糊 ， 范围 约 {size} mm",
    TUMOUR: "{lung} {lobe} {verb} 片状 实变 影 ， 边缘 模糊 ， 范围 约 {size} mm",
}
NODULE: Mapping[tuple[Reason, bool], str] = {
    **{(reason, False): "{lung} {lobe} {verb} {density} 结节 ， 直径 约 {size} mm" for reason in Reason},
    **{(reason, True): "{lung} {lobe} {verb} {density} 结节 ， 大小 约 {size} mm" for reason in Reason},
    (SCREENING, False): "{lung} {lobe} {verb} 一枚 {density} 结节 ， 直径 约 {size} mm",
    (SCREENING, True): "{lung} {lobe} {verb} 一枚 {density} 结节 ， 长径 约 {size} mm",
    (FOLLOW_UP, False): "{lung} {lobe} {verb} {density} 结节 影 ， 直径 约 {size} mm",
    (FOLLOW_UP, True): "{lung} {lobe} {verb} {density} 结节 影 ， 大小 约 {size} mm",
    (TUMOUR, True): "{lung} {lobe} {verb} {density} 结节 ， 最大径 约 {size} mm",
}

NORMAL_IMPRESSION: Mapping[bool, ByReason] = {  # by contrast
    False: dict.fromkeys(Reason, "胸部 CT 平扫 未见 明显 异常 。") | {SCREENING: "胸部 CT 筛查 未见 明显 异常 。"},
    True: dict.fromkeys(Reason, "胸部 CT 增强 扫描 未见 明显 异常 。"),
}
CONCLUDED_NODULE: ByReason = dict.fromkeys(Reason, "{lung} {lobe} {density} 结节 ， 约 {size} mm{told} 。") | {
    FOLLOW_UP: "{lung} {lobe} {density} 结节 ， 大小 约 {size} mm{told} 。",
    TUMOUR: "{lung} {lobe} {density} 结节 ， 最大径 约 {size} mm{told} 。",
}
CONCLUDED_CONSOLIDATION = "{lung} {lobe} 实变 ， 范围 约 {size} mm ， 考虑 炎症 。"
CONCLUDED_WITH = " ， 伴 {signs}"
CONCLUDED_SUSPECT = " ， 恶性 不除外"
CALCIUM = "钙化"
IMPRESSION_EFFUSION = "{side} 胸腔积液 。"
IMPRESSION_NODE = "纵隔 肿大 淋巴结 ， 短径 约 {size} mm 。"
IMPRESSION_LIVER: Mapping[str, str] = {
    "囊肿": "肝 囊肿 ， 约 {size} mm 。",
    "血管瘤": "肝 血管瘤 可能 ， 约 {size} mm 。",
    "低密度灶": "肝 内 低密度 灶 ， 约 {size} mm ， 性质 待定 。",
}
IMPRESSION_FIBROSIS: Mapping[str, str] = {"左侧": "左肺 间质 纤维化 。", "右侧": "右肺 间质 纤维化 。", "双侧": "双肺 间质 纤维化 。"}
IMPRESSION_EMPHYSEMA: Mapping[str, str] = {"左侧": "左肺 肺气肿 。", "右侧": "右肺 肺气肿 。", "双侧": "双肺 肺气肿 。"}

# from least to most urgent
ADVICE = (
    "建议 年度 体检 随访 。",
    "建议 12 个月 后 复查 胸部 低剂量 CT 。",
    "建议 6 个月 后 复查 胸部 CT 。",
    "建议 3 个月 后 复查 胸部 CT ， 必要时 增强 CT 或 穿刺 活检 。",
    "建议 抗感染 治疗 后 复查 胸部 CT 。",
    "建议 增强 CT 进一步 检查 ， 必要时 穿刺 活检 。",
)
ADVICE_OF: Mapping[Reason, str] = {  # said besides, where something was found
    FOLLOW_UP: "请 结合 前 片 对比 。",
    INFECTION: "请 结合 临床 及 实验室 检查 。",
    TUMOUR: "请 结合 肿瘤 病史 及 标志物 检查 。",
}
ADVICE_NODE = "建议 增强 CT 评估 纵隔 淋巴结 。"
ADVICE_EFFUSION = "建议 结合 临床 查找 胸腔积液 原因 。"
ADVICE_DIFFUSE = "建议 肺功能 检查 。"
ADVICE_LIVER: Mapping[str, str] = {
    "囊肿": "肝 囊肿 建议 超声 随访 。",
    "血管瘤": "肝脏 病灶 建议 增强 检查 。",
    "低密度灶": "肝脏 病灶 建议 增强 检查 。",
}
