"""Does a text look as people write? What tells a true reading of bytes from a false one: Chinese by its common characters, others by their words."""

from __future__ import annotations

import re

HAN = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN = re.compile(f"[{HAN}]")
# ASCII, Chinese, and the symbols and Greek letters of GB 2312: at least half of what is not ASCII must be characters.
_CHINESE = re.compile(rf"[\x20-\x7e\xa4\xa7\xa8\xb0\xb1\xb7\xd7\xf7\u0391-\u03c9\u2010-\u266f\u3000-\u303f\uff00-\uffef{HAN}]+")
# Most families of China, in both scripts; what a name begins with tells its reading from others of the same bytes.
SURNAMES = frozenset(
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹"
    "黎易常武乔贺赖龚文庞樊兰殷施陶洪翟安颜倪严牛温芦季俞章鲁葛伍韦申尤毕聂丛焦向柳邢路岳齐沿梅莫庄辛管祝左涂谷祁时舒耿牟卜詹关苗凌费纪靳盛童欧甄项曲成游阳裴席卫查屈鲍位覃霍翁隋植甘景薄单包司柏宁柯阮桂"
    "闵解强柴华车冉房边辜吉饶刁瞿戚丘古米池滕晋苑邬臧畅宫来缑全褚娄匡简鞠桑艾封仝肖付闫代卞亓郄冼佟阙岑鄢濮逄缪储仇蒲敖连练仲栾冷栗商麦麻楚苟荣窦支沙明党宗郎国初杭巫应"
    "張劉陳楊趙黃吳孫馬羅鄭謝韓馮蕭鄧許呂蘇盧蔣賈葉閻鍾譚鄒陸龍萬錢湯喬賀賴龔龐蘭莊顏倪嚴盧溫韋畢聶齊關費紀歐項陽衛單寧簡閔華車邊饒臧婁榮竇國應叢魯塗劃顧時"
)
COMPOUND = tuple(re.findall("..", "欧阳歐陽司马司馬诸葛諸葛上官司徒东方東方夏侯皇甫尉迟尉遲公孙公孫慕容长孙宇文令狐端木"))
_HAN_THEN_LATIN = re.compile(f"[{HAN}][A-Za-z]")
_WORD = re.compile(r"[^\W\d_]+")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_SYMBOLS = re.compile(r"[\x80-\xbf\xd7\xf7]{2,}|[\x80-\xbf\xd7\xf7][^\W\d_\x00-\x7f]|[^\W\d_\x00-\x7f][\x80-\xbf\xd7\xf7]")
_CONTROLS = re.compile(r"[\x80-\x9f]")
_NOT_IN_NAMES = re.compile(r"[\xa1-\xa9\xab-\xb3\xb5\xb6\xb9\xbb-\xbf\xd7\xf7]")
_LONE = str.maketrans("ªµº²³¹¼½¾", " " * 9)  # letters to Unicode; units, ordinals and fractions to people
# Latin with its extensions, and the letters in use of four more alphabets. A word is of one of them.
_ALPHABETS = tuple(
    re.compile(f"[{letters}]+")
    for letters in (
        r"A-Za-z\u00c0-\u024f\u1e00-\u1eff",
        r"\u0386-\u03ce",
        r"\u0401-\u040c\u040e-\u044f\u0451-\u045c\u045e\u045f\u0490\u0491",
        r"\u05d0-\u05ea",
        r"\u0621-\u064a",
    )
)
SURNAME = 0.5
LONGEST_RUN = 3  # accented letters in a row
SHORTEST_PROOF = 3  # letters: a shorter word of another alphabet may as well be a Chinese character


def is_chinese(text: str) -> bool:
    """True for a text of Chinese and ASCII with at least one Chinese character, however rare."""
    han = len(_HAN.findall(text))
    return han > 0 and _CHINESE.fullmatch(text) is not None and 2 * han >= sum(not c.isascii() for c in text)


def begins_with_surname(name: str) -> bool:
    """True when the first Chinese characters of a name are one of the usual families'."""
    first = _HAN.search(name)
    return first is not None and (first[0] in SURNAMES or name.startswith(COMPOUND, first.start()))


def commonness(text: str) -> float:
    """Mean over the Chinese characters, 0 to 1: 1 is a character of everyday use (first level of GB 2312 or Big5), 0 is in neither set."""
    han = _HAN.findall(text)
    return sum(map(_common, han)) / len(han) if han else 0.0


def likelihood(text: str, name: bool) -> float:
    """To compare Chinese readings of the same bytes: the commonness, and more for a name that begins with a surname."""
    return commonness(text) + (SURNAME if name and begins_with_surname(text) else 0.0)


def _common(character: str) -> float:
    simplified, traditional = _lead(character, "gb2312"), _lead(character, "big5")
    if 0xB0 <= simplified <= 0xD7 or 0xA4 <= traditional <= 0xC6:
        return 1.0
    return 0.6 if simplified else 0.3 if traditional else 0.0


def _lead(character: str, codec: str) -> int:
    """First byte of a character, 0 where the set lacks it."""
    try:
        return character.encode(codec)[0]
    except UnicodeEncodeError:
        return 0


def has_east_asian(text: str) -> bool:
    """True with a Chinese character, kana or hangul in it."""
    return re.search(rf"[{HAN}\u3041-\u30ff\uac00-\ud7a3]", text) is not None


def reads_as_words(text: str, name: bool) -> bool:
    """True when the letters beyond ASCII stand in words as people write them: one alphabet a word, capitals at its beginning or all through.

    A name holds no symbols; in other text they stand alone (37 °C).
    """
    if _CONTROLS.search(text) or _SYMBOLS.search(text) or (name and _NOT_IN_NAMES.search(text)):
        return False
    return all(map(_is_word, _WORD.findall(text.translate(_LONE))))


def proves_itself(text: str, name: bool) -> bool:
    """True when `text` reads as words and one shows by itself that it is one: Latin around its accents, three letters of another alphabet."""
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    shown = any(re.search("[A-Za-z]", word) or (len(word) >= SHORTEST_PROOF and not _ALPHABETS[0].fullmatch(word)) for word in words)
    return shown and reads_as_words(text, name)


def is_of_single_letters(text: str) -> bool:
    """True when no two letters stand together: nobody's name."""
    return all(len(word) == 1 for word in _WORD.findall(text))


def is_latin_within_gb(text: str, gb: str) -> bool:
    """True for a Latin text (ÞÓRÐUR) whose bytes are also Chinese ones, but with letters behind the characters, as nobody writes a name."""
    short = all(len(run) <= LONGEST_RUN and _ALPHABETS[0].fullmatch(run) for run in _FOREIGN.findall(text))
    return short and _HAN_THEN_LATIN.search(gb) is not None


def _is_word(word: str) -> bool:
    if word.isascii():
        return True
    if not any(alphabet.fullmatch(word) for alphabet in _ALPHABETS):
        return False
    if not _ALPHABETS[0].fullmatch(word):
        return _case_holds(word)
    if len(word) > 1 and re.search("[A-Za-z]", word) is None:
        return False
    return _case_holds(word) and all(_run_holds(run) for run in _FOREIGN.findall(word))


def _case_holds(word: str) -> bool:
    return word[1:] == word[1:].lower() or all(c.isupper() or c in "ßÿ" for c in word)


def _run_holds(run: str) -> bool:
    """Accented letters come alone or in twos; two capitals only when doubled (JÄÄSKELÄINEN), else they are more likely one Chinese character."""
    return len(run) == 1 or (len(run) == 2 and (not run[1].isupper() or run[0] == run[1]))
