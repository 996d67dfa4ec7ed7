"""How much of public word lists the lexicon reads: only the parts that a CT of chest or abdomen can show. The lists are read from the test data."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from pipeline.rules.seed import seed_lexicon
from pipeline.rules.spans import folded
from tests.unit.rules.lexicons import LEXICON

ENGLISH = {entry.english.lower() for entry in seed_lexicon() if entry.english}
FLOORS = {"thuocl": 0.9, "totalsegmentator": 0.94, "finding models": 0.75}
LIMBS = re.compile(r"tibia|fibula|patella|tarsal|metatarsal|phalanges|ulna|radius|carpal|metacarpal|autochthon|torso_fat|covid|body_")

# organs and what is found in them, as THUOCL's words name them
ORGANS = (
    "肺|胸膜|胸腔|胸腺|胸壁|支气管|气管|纵隔|心包|主动脉|冠状动脉|食管|肝|胆囊|胆管|胆总管|胰腺|脾|肾|淋巴结|肋骨|椎体|膈|腹腔|腹膜|门静脉|腔静脉"
)
FOUND = (
    "炎|癌|瘤|结石|囊肿|积液|栓塞|气肿|结节|肿块|脓肿|肿大|增厚|钙化|梗死|扩张|狭窄|破裂|出血|转移|结核|水肿|不张|纤维化|萎缩|穿孔|梗阻|骨折"
    "|血栓|夹层|硬化|积水|积气"
)
CLINICAL = "肝炎|肾炎|肾小球|肝火|脾虚|不明原因|职业|工人"  # told by blood, urine or history, not by CT
THUOCL = re.compile(rf"^(?!.*(?:{CLINICAL}))(?=.*(?:{ORGANS})).*(?:{FOUND})$")
COMMON = 10  # documents in which THUOCL counted the word; rarer ones are names of single entities

# names of finding models: organs that are scanned here, without other methods and ages
SCANNED = re.compile(
    r"lung|pulmon|pleur|bronch|trache|mediast|hilar|chest|aort|pericard|coronary|esophag|liver|hepat|bil|gallbl|spleen|splen|pancrea|renal|kidney|adrenal"
    r"|periton|ascites|emphysem|pneumo|atelect|nodule|consolid|rib"
)
OTHER = re.compile(
    r"child|infan|fetal|fetus|neonat|congen|echo|mri|_mr|t1_|t2_|pet|xray|radiograph|scintigra|flow|doppler|resistance|transplant|on_us|film|rads"
    r"|elastography|index|brain|cheek|testicular|placement|measurement|quantif|volume|hyper|hypo|iso|measur|assessment|characterization|device|probe|pump"
    r"|cervical|insufficiency|dysfunction|dysmotility|tamponade|atlantoaxial|wires|leads|planning|waveform|opacification|nephrogram|intensity|shadowing"
)


def covered(word: str) -> bool:
    """True when the lexicon reads every character of the word."""
    flat = folded(word)
    return sum(token.end - token.start for token in LEXICON.tokens(flat)) == len(flat)


def report(name: str, found: int, of: int, missing: list[str]) -> float:
    share = found / of
    print(f"\n{name}: {found} of {of} ({share:.0%}); not read: {' '.join(missing[:25])}")
    return share


def test_chest_and_abdomen_words_of_thuocl_are_read(test_data: Path) -> None:
    rows = (line.split("\t") for line in (test_data / "text" / "THUOCL_medical.txt").read_text(encoding="utf-8").splitlines() if "\t" in line)
    words = [row[0].strip() for row in rows if THUOCL.match(row[0].strip()) and int(row[1]) >= COMMON]
    missing = [word for word in words if not covered(word)]
    assert len(words) > 100
    assert report("THUOCL", len(words) - len(missing), len(words), missing) > FLOORS["thuocl"]


def test_every_structure_of_totalsegmentator_in_the_trunk_has_a_term(test_data: Path) -> None:
    with (test_data / "text" / "totalsegmentator_snomed_mapping.csv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if not LIMBS.search(row["Structure"])]
    missing = [row["Structure"] for row in rows if not structure(row)]
    assert len(rows) > 100
    assert report("TotalSegmentator (SNOMED CT)", len(rows) - len(missing), len(rows), missing) > FLOORS["totalsegmentator"]


def structure(row: dict[str, str]) -> bool:
    """By the code's meaning, by the structure's own name, or for ribs and vertebrae by the word that the lexicon has for them."""
    meaning = row["SegmentedPropertyTypeCodeSequence.CodeMeaning"].lower()
    side = row["SegmentedPropertyTypeModifierCodeSequence.CodeMeaning"].lower()
    name = row["Structure"].replace("_", " ")
    if rib := re.fullmatch(r"rib (left|right) (\d+)", name):
        return f"{'左' if rib[1] == 'left' else '右'}侧第{rib[2]}肋骨" in LEXICON.terms
    if vertebra := re.fullmatch(r"vertebrae ([CTL])(\d+)", name):
        return f"{'颈胸腰'['CTL'.index(vertebra[1])]}{vertebra[2]}椎体" in LEXICON.terms
    if name == "portal vein and splenic vein":
        return {"portal vein", "splenic vein"} <= ENGLISH
    of_lung = meaning.replace(" of right lung", " of lung")
    names = {meaning, name, of_lung, f"right {of_lung}", f"{side} {meaning}"}
    return bool(names & ENGLISH) or singular(meaning) in ENGLISH


def singular(words: str) -> str:
    return " ".join(word if word.endswith("ss") else word.rstrip("s") for word in words.split())


def test_finding_models_of_chest_and_abdomen_have_a_term(test_data: Path) -> None:
    known = [frozenset(singular(name).split()) for name in ENGLISH]
    files = json.loads((test_data / "text" / "findingmodels_ids.json").read_text(encoding="utf-8"))["oifm_ids"].values()
    names = sorted({name.removesuffix(".fm.json") for name in files})
    names = [name for name in names if SCANNED.search(name) and not OTHER.search(name)]
    missing = [name for name in names if not any(words <= set(singular(name.replace("_", " ")).split()) for words in known)]
    assert len(names) > 100
    assert report("finding models", len(names) - len(missing), len(names), missing) > FLOORS["finding models"]
