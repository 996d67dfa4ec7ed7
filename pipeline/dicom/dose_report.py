"""CT irradiation events of one structured dose report (PS3.16 TID 10011 → 10012, 10013), whoever wrote it.

An event without a UID of its own gets one from its contents, so that a cumulative report that repeats it does not count it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256

from pydicom.dataset import Dataset

from pipeline.dicom import dose_codes as codes
from pipeline.dicom.dose_tree import Item, below, walk
from pipeline.dicom.dose_values import quantity, region_of_words
from pipeline.dicom.uids import judged
from pipeline.errors import Unsupported
from pipeline.irradiation import DoseSource, Irradiation

CM = 0.1  # per mm
AGREES = 0.02  # the sum may differ from the report's total by rounding
Found = Mapping[str, Sequence[Item]]


def events_of(ds: Dataset, charset: str, source: DoseSource, study_uid: str) -> tuple[tuple[Irradiation, ...], float | None, tuple[str, ...]]:
    """Events, the report's own total DLP in mGy cm, and notes. Raises Unsupported for a report that holds no CT dose, BadInput for a damaged tree."""
    root = next(walk(ds, charset))
    document = below(root)
    _ct_only(document)
    notes: list[str] = []
    acquisitions = [item for item in document.get(codes.ACQUISITION, ()) if item.scheme == codes.DCM]
    seen: Counter[str] = Counter()
    events = tuple(_event(item, source, study_uid, seen) for item in acquisitions)
    events = _once(events, notes)
    total = _total(document, notes)
    if not events and total is None:
        raise Unsupported("the report names neither a CT acquisition (113819) nor a total DLP (113813): it holds no CT dose")
    if not events and total is not None:
        events = (_summed(study_uid, total, ds),)
    else:
        notes += _compared(document, events, total)
    return events, total, tuple(notes)


def dose_study(ds: Dataset, charset: str) -> str:
    """The study that the report says it accumulates (below Scope of Accumulation), empty where it does not say."""
    root = next(walk(ds, charset))
    return next((uid for item in below(root).get(codes.SCOPE_STUDY, ()) if (uid := judged(item.uid)[0])), "")


def _ct_only(document: Found) -> None:
    procedures = {item.choice for item in document.get(codes.PROCEDURE, ())} - {""}
    if procedures and procedures.isdisjoint(codes.CT_PROCEDURES) and not document.get(codes.ACQUISITION):
        raise Unsupported("the dose report is of another procedure than CT (113819 is missing); only CT dose is read")


def _event(acquisition: Item, source: DoseSource, study_uid: str, seen: Counter[str]) -> Irradiation:
    found = below(acquisition)
    notes: list[str] = []
    kind = next((codes.KINDS.get(item.choice, "") for item in found.get(codes.KIND, ())), "")
    ctdivol = quantity(found.get(codes.CTDIVOL, ()), codes.MGY, codes.MOST_CTDIVOL_MGY, "CTDIvol", notes)
    dlp = _dlp(found, ctdivol, kind, notes)
    started = next((item.when for item in found.get(codes.EVENT_STARTED, ())), None)
    region = _region(found)
    uid = next((good for item in found.get(codes.EVENT_UID, ()) if (good := judged(item.uid)[0])), "")
    if not uid:
        notes.append("照射事件没有 UID，按内容识别")
        uid = _made_uid(study_uid, seen, found, started, dlp, ctdivol)
    phantom_cm = next((codes.PHANTOMS_CM[item.choice] for item in found.get(codes.PHANTOM, ()) if item.choice in codes.PHANTOMS_CM), None)
    kvp = quantity(found.get(codes.KVP, ()), codes.KV, 500.0, "kVp", notes)
    return Irradiation(uid, source, region, dlp, ctdivol, phantom_cm, kind, kvp, started, tuple(notes))


def _dlp(found: Found, ctdivol: float | None, kind: str, notes: list[str]) -> float | None:
    """DLP as written; else CTDIvol × scanning length; a localizer without figures (TID 10013: they are optional there) counts as 0."""
    before = len(notes)
    dlp = quantity(found.get(codes.DLP, ()), codes.MGY_CM, codes.MOST_DLP_MGY_CM, "DLP", notes)
    if dlp is not None or len(notes) > before:
        return dlp
    lengths = [*found.get(codes.EXPOSED, ()), *found.get(codes.LENGTH, ())]
    length_mm = quantity(lengths, codes.MM, 5_000.0, "扫描长度", notes)
    if ctdivol is not None and length_mm is not None:
        notes.append("DLP 由 CTDIvol × 扫描长度算得")
        return ctdivol * length_mm * CM
    if kind == codes.LOCALIZER:
        notes.append("定位像未给出剂量")
        return 0.0
    notes.append("未给出 DLP")
    return None


def _region(found: Found) -> str:
    coded = (codes.REGIONS.get(item.choice, "") for item in found.get(codes.TARGET, ()))
    words = [item.text for item in found.get(codes.PROTOCOL, ())]
    return next((region for region in coded if region), "") or region_of_words(*words)


def _made_uid(study_uid: str, seen: Counter[str], found: Found, *values: object) -> str:
    """The same for the same contents in any report of the study; equal events of one report are numbered."""
    protocol = [item.text for item in found.get(codes.PROTOCOL, ())]
    words = "|".join(map(str, (study_uid, *protocol, *values)))
    seen[words] += 1
    return f"content:{sha256(f'{words}|{seen[words]}'.encode()).hexdigest()[:32]}"


def _once(events: Sequence[Irradiation], notes: list[str]) -> tuple[Irradiation, ...]:
    """Each UID once; of two with one UID the larger DLP stands."""
    kept: dict[str, Irradiation] = {}
    for event in events:
        other = kept.get(event.event_uid)
        if other is not None:
            notes.append("同一照射事件在报告中出现多次，只计一次")
        if other is None or (event.dlp_mgy_cm or -1.0) > (other.dlp_mgy_cm or -1.0):
            kept[event.event_uid] = event
    return tuple(kept.values())


def _total(document: Found, notes: list[str]) -> float | None:
    return quantity(document.get(codes.TOTAL_DLP, ()), codes.MGY_CM, 4 * codes.MOST_DLP_MGY_CM, "总 DLP", notes)


def _summed(study_uid: str, total: float, ds: Dataset) -> Irradiation:
    """The whole examination as one event: a later report with a larger sum takes its place, one with events replaces it."""
    digest = sha256(study_uid.encode()).hexdigest()[:32]
    region = region_of_words(str(ds.get("BodyPartExamined") or ""))
    return Irradiation(f"total:{digest}", DoseSource.TOTAL, region, total, notes=("报告只给出总 DLP，没有逐次照射",))


def _compared(document: Found, events: Sequence[Irradiation], total: float | None) -> list[str]:
    """The report's own sums against its events."""
    notes = []
    summed = sum(event.dlp_mgy_cm or 0.0 for event in events)
    if total is not None and abs(total - summed) > max(AGREES * total, 0.1):
        notes.append(f"报告的总 DLP {total:g} 与各次之和 {summed:g} mGy·cm 不符")
    written = [number for item in document.get(codes.TOTAL_EVENTS, ()) if (number := item.number()) is not None]
    if written and written[0][0].strip().isdigit() and int(written[0][0]) != len(events):
        notes.append(f"报告称有 {int(written[0][0])} 次照射，逐次记录有 {len(events)} 次")
    return notes
