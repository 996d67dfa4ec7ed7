"""Names and texts for the repair of character sets, and the faults that they meet. A fault gives (bytes, label) of one name."""

from __future__ import annotations

from collections.abc import Iterator

_CHINESE = (
    "张^小东 王^小明 李^伟 刘^洋 陈^静 杨^丽 赵^磊 黄^强 周^杰 吴^敏 徐^娟 孙^涛 马^超 朱^镕基 胡^军 郭^鑫 何^欢 高^飞 林^志远 罗^玉凤 "
    "郑^爽 梁^家辉 谢^雪 宋^慧 唐^嫣 许^晴 韩^雪 冯^巩 邓^超 曹^颖 彭^丽媛 曾^志伟 萧^亚轩 田^壮壮 董^卿 袁^咏仪 潘^长江 于^谦 蒋^雯 "
    "蔡^依林 余^文乐 杜^江 叶^问 程^龙 苏^有朋 魏^晨 吕^布 丁^磊 任^贤齐 沈^腾 姚^明 卢^俊义 姜^文 崔^健 钟^楚红 谭^咏麟 陆^毅 汪^涵 "
    "范^冰冰 金^城武 石^磊 廖^凡 贾^玲 夏^雨 韦^小宝 付^强 方^中信 白^雪 邹^市明 孟^非 熊^伟 秦^海璐 邱^淑贞 江^珊 尹^正 薛^学 闫^妮 "
    "段^奕宏 雷^佳音 侯^勇 史^可 陶^虹 黎^明 贺^龙 顾^长卫 毛^梅 郝^蕾 龚^琳娜 邵^兵 万^梓良 钱^学森 严^屹宽 覃^辉 武^松 戴^军 莫^言 "
    "孔^令辉 向^华 汤^唯 欧阳^娜娜 司马^光 诸葛^亮 上官^婉儿 茅^盾 濮^存昕 佟^丽娅 岑^参 鄢^婧 小^谢 联^通 孝^笑学 解^晓东 曲^婉婷 "
    "缪^斯 冼^星海 尤^勇"
)
# outside GB 2312, some in four bytes of GB 18030
_RARE = "王^喆 李^玥 卞^珺 牛^犇 逄^博 郄^明 䶮^龙 㓤^一 陈^赟 刘^堃"
_TRADITIONAL = "張^小東 陳^大文 李^小龍 劉^德華 梁^朝偉 王^家衛 林^鳳嬌 蕭^薔 蔡^英文 黃^飛鴻 葉^問 鄭^成功 謝^霆鋒 歐陽^鋒 趙^雅芝 許^冠傑"
_WESTERN = (
    "Müller^Jürgen,Äneas^Rüdiger,Buc^Jérôme,Peña^José,Groß^Öhm,Größe^Anna,Weißäcker^Zoë,ÞÓRÐUR^Ásgeir,Þórður^Jón,JÄÄSKELÄINEN^VÄINÖ,"
    "Mäki^Päivi,MÄÄ^ANNA,Søren^Kjærgård,ÅKESSON^BJÖRN,Noël^Benoît,François^Éloïse,Muñoz^Iñigo,Ångström^Åsa,Ødegård^Øyvind,Ferrão^João,"
    "Conceição^Luís,Gonçalves^Antônio,Zuñiga^Núñez,GARCÍA^MARÍA,GROßMANN^JÖRG,Ó Súilleabháin^Áine,Björk^Guðmundsdóttir,Þór^Æsa,"
    "O'Brien^Seán,D'Été^André,É^Jean,André^Paul,René^Émile,Leão^Inês,Sjöö^Ulf,Hjälmarén^Göran,Ylöjärvi^Töölö,RUÍZ^LUÍS,McÖrn^Ä,"
    "DeÁvila^Íñigo,Ýr^Ñíguez,LÜ^Õ,Lü^Xiaoming,LÜ^XIAOMING,Straße^Ré,SØØRD^ØØN,Aña^Ñáñez,ÁÑEZ^JOSÉ"
)
_TEXTS = (
    "胸部CT平扫|CT平扫|CT胸部|胸部平扫+增强|咳嗽、咳痰2周，伴发热38.5℃|右肺上叶结节?|肺Ca术后复查|Chest CT 胸部|CT心脏|头颅CTA|体检|"
    "乙肝10年|L1椎体骨折|x光示:双肺纹理增多|CT强化|CT描|心CT|胸CT平扫|A型主动脉夹层|（上腹部）|Ⅱ型糖尿病，β受体阻滞剂|肿块≥3cm×4cm"
)
_WESTERN_TEXTS = (
    "37 °C|37°C, 5±2 mm|µg/m²|Thorax à jeun|Knöchel re. ap|Röntgen «Thorax»|Lésion 3×4 cm|naïve été où ça|½ Dosis|Contrôle après|"
    "THORAX À JEUN|ÉTÉ|à|Schädel nativ, Z.n. OP 2×"
)
CHINESE = _CHINESE.split()
FAMILIES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史"
    "顾侯邵孟龙万段雷钱汤尹"
)
GIVEN = (
    "伟芳娜秀英敏静丽强磊军洋勇艳杰娟涛明超霞平刚桂文辉玲红鹏健华建国志晓小东海波宁宇浩轩子涵雨欣怡梓萱诺嘉俊泽梅兰春生山云雪学新德福荣贵金玉珍凤龙"
)
RARE = _RARE.split()
TRADITIONAL = _TRADITIONAL.split()
WESTERN = _WESTERN.split(",")
TEXTS = _TEXTS.split("|")
WESTERN_TEXTS = _WESTERN_TEXTS.split("|")
DESIGNATION = b"\x1b$)A"
Fault = Iterator[tuple[bytes, str]]


def gbk_under_a_western_label_or_none(name: str) -> Fault:
    for label in ("", "ISO_IR 6", "ISO_IR 100", "ISO 2022 IR 100", "\\ISO 2022 IR 100"):
        yield name.encode("gb18030"), label


def gbk_under_utf8(name: str) -> Fault:
    yield name.encode("gb18030"), "ISO_IR 192"


def utf8_under_another_label(name: str) -> Fault:
    for label in ("", "ISO_IR 100", "GB18030", "GBK", "ISO_IR 144", "ISO_IR 13", "ISO_IR 126", "\\ISO 2022 IR 58", "\\ISO 2022 IR 87"):
        yield name.encode(), label


def utf8_encoded_twice(name: str) -> Fault:
    as_latin = name.encode().decode("latin-1")
    as_windows = "".join(_windows(byte) for byte in name.encode())
    for label in ("ISO_IR 192", "ISO_IR 100", "", "GB18030"):
        yield as_latin.encode(), label
        yield as_windows.encode(), label


def gbk_read_as_latin_and_encoded_as_utf8(name: str) -> Fault:
    yield name.encode("gb18030").decode("latin-1").encode(), "ISO_IR 192"


def gb2312_without_its_escapes(name: str) -> Fault:
    yield name.encode("gb18030"), "\\ISO 2022 IR 58"


def the_first_escape_missing(name: str) -> Fault:
    yield name.encode("gb18030").replace(b"^", b"^" + DESIGNATION), "\\ISO 2022 IR 58"


def escapes_that_lost_their_first_byte(name: str) -> Fault:
    raw = b"$)A" + name.encode("gb18030").replace(b"^", b"^$)A")
    yield raw, "\\ISO 2022 IR 58"
    yield raw, ""


FAULTS = (
    gbk_under_a_western_label_or_none,
    gbk_under_utf8,
    utf8_under_another_label,
    utf8_encoded_twice,
    gbk_read_as_latin_and_encoded_as_utf8,
    gb2312_without_its_escapes,
    the_first_escape_missing,
    escapes_that_lost_their_first_byte,
)


def _windows(byte: int) -> str:
    """One byte as Windows-1252 shows it; Latin-1 where that has a gap."""
    try:
        return bytes((byte,)).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)
