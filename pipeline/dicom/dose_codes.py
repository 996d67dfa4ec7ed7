"""Codes of CT dose reports (PS3.16 TID 10011 to 10013) as data, with what vendors write in their place.

A concept is found by its code wherever it stands: vendors nest containers differently. SRT values stand beside the SCT ones that took their place
(PS3.16 annex L, CID 4030, CID 10013).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DCM = "DCM"
DOSE_TITLE = "113701"  # X-Ray Radiation Dose Report
PROCEDURE = "121058"
SCOPE_STUDY = "110180"  # Study Instance UID below Scope of Accumulation
STARTED = "113809"  # Start of X-Ray Irradiation, of the whole report
ACCUMULATED, TOTAL_EVENTS, TOTAL_DLP = "113811", "113812", "113813"
ACQUISITION = "113819"
EVENT_UID, EVENT_STARTED = "113769", "111526"
PROTOCOL, TARGET, KIND, COMMENT = "125203", "123014", "113820", "121106"
LENGTH, EXPOSED = "113825", "113899"  # Scanning Length, Exposed Range, in mm
CTDIVOL, PHANTOM, DLP = "113830", "113835", "113838"
KVP = "113733"

CT_PROCEDURES = frozenset({"P5-08000", "77477000"})
LOCALIZER = "localizer"
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "113805": LOCALIZER,  # Constant Angle
        "113804": "sequenced",
        "P5-08001": "spiral",
        "116152004": "spiral",
        "113806": "stationary",
        "113807": "free",
        "702569007": "cone-beam",
        "R-FA848": "cone-beam",
    }
)
PHANTOMS_CM: Mapping[str, int] = MappingProxyType({"113690": 16, "113691": 32})  # IEC head, IEC body; CID 4052

# UCUM says mGy.cm; GE and older Siemens write mGycm, others put another mark between. What is not here is not guessed.
MGY_CM: Mapping[str, float] = MappingProxyType(
    {
        "mgy.cm": 1.0,
        "mgycm": 1.0,
        "mgy*cm": 1.0,
        "mgy cm": 1.0,
        "mgy·cm": 1.0,
        "mgy-cm": 1.0,
        "gy.cm": 1000.0,
        "cgy.cm": 10.0,
        "ugy.cm": 0.001,
        "mgy.m": 100.0,
    }
)
MGY: Mapping[str, float] = MappingProxyType({"mgy": 1.0, "gy": 1000.0, "cgy": 10.0, "ugy": 0.001})
MM: Mapping[str, float] = MappingProxyType({"mm": 1.0, "cm": 10.0, "m": 1000.0})
KV: Mapping[str, float] = MappingProxyType({"kv": 1.0, "kvp": 1.0, "v": 0.001})

HEAD, NECK, HEAD_NECK, CHEST = "head", "neck", "head-neck", "chest"
ABDOMEN, PELVIS, ABDOMEN_PELVIS, TRUNK = "abdomen", "pelvis", "abdomen-pelvis", "trunk"
# Target Region (CID 4030) → region of the factors' table. A region of two parts takes the one with the larger factor, or the trunk.
REGIONS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("69536005", "T-D1100", "12738006", "T-A0100", "89546000", "T-11100", "89545001", "T-D1200"), HEAD),
        **dict.fromkeys(("2095001", "T-22000", "363654007", "91397008", "59066005", "361078006", "371398005", "81745001"), HEAD),
        **dict.fromkeys(("45048000", "T-D1600", "122494005", "T-11501", "4596009", "69748006", "69105007"), NECK),
        **dict.fromkeys(("774007", "T-D1000"), HEAD_NECK),
        **dict.fromkeys(("816094009", "51185008", "T-D3000", "39607008", "T-28000", "80891009", "T-32000", "72410000"), CHEST),
        **dict.fromkeys(("122495006", "T-11502", "41801008", "113262008", "81040000", "417437006", "R-FAB52", "32849002"), CHEST),
        **dict.fromkeys(("818981001", "113345001", "T-D4000", "10200004", "T-62000", "64033007", "T-71000", "15776009"), ABDOMEN),
        **dict.fromkeys(("122496007", "T-11503", "7832008", "71854001", "78961009", "69695003", "303270005"), ABDOMEN),
        **dict.fromkeys(("816092008", "12921003", "T-D6000", "89837001", "54735007", "29836001", "24136001"), PELVIS),
        **dict.fromkeys(("818982008", "416949008", "R-FAB57", "431491007", "87953007"), ABDOMEN_PELVIS),
        **dict.fromkeys(("416550000", "R-FAB55", "416775004", "R-FAB56", "416152001", "R-FAB53", "416319003", "R-FAB54"), TRUNK),
        **dict.fromkeys(("22943007", "T-D2000", "38266002", "T-D0010"), TRUNK),
    }
)
# Where no code says it: words of the protocol or of BodyPartExamined (PS3.16 annex L), the first row that fits.
REGION_WORDS: tuple[tuple[str, str], ...] = (
    (r"chest.*(abd|pelv)|thorax.*abd|thorabd|\bTAP\b|\bCAP\b|CHESTABD|胸.*腹|全身|躯干|whole.?body|trunk", TRUNK),
    (r"abd.*pelv|ABDOMENPELVIS|腹.*盆", ABDOMEN_PELVIS),
    (r"head.*neck|HEADNECK|头颈", HEAD_NECK),
    (r"chest|thora|lung|pulmo|heart|cardi|coron|胸|肺|心|冠", CHEST),
    (r"abdo|liver|kidney|renal|pancrea|KUB|urogr|L.?spine|lumbar|腹|肝|肾|胰|腰椎", ABDOMEN),
    (r"pelvi|bladder|prostat|hip\b|盆|髋|膀胱", PELVIS),
    (r"neck|thyroid|C.?spine|cervic|carotid|颈|甲状腺", NECK),
    (r"head|brain|skull|sinus|orbit|cereb|头|脑|颅|鼻窦|眼", HEAD),
)

# Beyond these a value is a fault of the sender, not a dose: the longest perfusion examinations stay well below.
MOST_DLP_MGY_CM = 50_000.0
MOST_CTDIVOL_MGY = 10_000.0
