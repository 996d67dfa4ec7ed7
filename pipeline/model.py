"""The nouns of the house: frozen values, and the three state machines with their legal moves."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Self
from uuid import UUID

from pipeline.errors import IllegalMove

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WATERMARK = "AI 草稿，未经医师审核，不得作为诊断依据"
DEMO_WATERMARK = "演示模型，不可用于临床"
LIVE = "live"  # the use on a card that allows real studies
DEPARTMENTS: Mapping[str, str] = MappingProxyType({"radiology": "放射科", "oncology": "肿瘤科", "pulmonology": "呼吸科"})  # written for
RETENTION_EXPIRED = "113039"  # PS3.16 CID 7011: data retention policy expired


class Machine(enum.StrEnum):
    """A state that knows its legal moves: `state.move(to)` returns `to` or raises IllegalMove."""

    def move(self, to: Self) -> Self:
        """Return `to` if the move is legal, else raise IllegalMove."""
        if to not in self.onward:
            legal = ", ".join(sorted(self.onward)) or "none (final)"
            name = type(self).__name__
            raise IllegalMove(f"{name} cannot go from '{self}' to '{to}'; legal moves from here: {legal}")
        return to

    @property
    def final(self) -> bool:
        """True when no move leads out of this state."""
        return not self.onward

    @property
    def onward(self) -> frozenset[Machine]:
        """The states that a move may lead to."""
        return (REQUEST_MOVES if isinstance(self, RequestState) else MOVES)[self]


class StudyState(Machine):
    """What has arrived of one study."""

    RECEIVING = "receiving"
    COMPLETE = "complete"
    PARTIAL = "partial"
    HELD = "held"
    WITHDRAWN = "withdrawn"


class JobState(Machine):
    """The work on one revision of one study."""

    READY = "ready"
    ENCODING = "encoding"
    ENCODED = "encoded"
    DRAFTING = "drafting"
    DRAFTED = "drafted"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    UNSUPPORTED = "unsupported"


class ReportState(Machine):
    """What readers have done with one revision's report of one department."""

    WAITING = "waiting"
    REVIEWING = "reviewing"
    WRITTEN = "written"
    SIGNED = "signed"
    AMENDED = "amended"
    REJECTED = "rejected"


class AlertState(Machine):
    """A suspected critical finding, and whether somebody who can act knows of it."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # somebody was told, and who is noted
    WAIVED = "waived"  # closed without telling anybody, with a reason: a false alarm, or a report that was signed all the same


class RequestState(Machine):
    """A draft that somebody asked for beside what the study's own job writes."""

    WAITING = "waiting"
    DRAFTING = "drafting"
    DRAFTED = "drafted"
    FAILED = "failed"


S, J, R, A, Q = StudyState, JobState, ReportState, AlertState, RequestState
MOVES: Mapping[Machine, frozenset[Machine]] = MappingProxyType(
    {
        S.RECEIVING: frozenset({S.COMPLETE, S.PARTIAL, S.HELD, S.WITHDRAWN}),
        S.COMPLETE: frozenset({S.RECEIVING, S.HELD, S.WITHDRAWN}),
        S.PARTIAL: frozenset({S.RECEIVING, S.COMPLETE, S.HELD, S.WITHDRAWN}),
        S.HELD: frozenset({S.RECEIVING, S.WITHDRAWN}),
        S.WITHDRAWN: frozenset({S.RECEIVING}),  # new images after rejection notes took back every one; never after an operator did
        # a lease that runs out hands the row back: encoding → ready, drafting → encoded
        J.READY: frozenset({J.ENCODING, J.FAILED, J.SUPERSEDED, J.UNSUPPORTED}),
        J.ENCODING: frozenset({J.READY, J.ENCODED, J.FAILED, J.SUPERSEDED, J.UNSUPPORTED}),
        J.ENCODED: frozenset({J.READY, J.DRAFTING, J.FAILED, J.SUPERSEDED}),
        J.DRAFTING: frozenset({J.ENCODED, J.DRAFTED, J.FAILED, J.SUPERSEDED}),
        J.DRAFTED: frozenset({J.SUPERSEDED}),
        J.FAILED: frozenset({J.READY, J.SUPERSEDED}),
        J.SUPERSEDED: frozenset(),
        J.UNSUPPORTED: frozenset({J.READY, J.SUPERSEDED}),
        R.WAITING: frozenset({R.REVIEWING, R.REJECTED}),
        R.REVIEWING: frozenset({R.WAITING, R.WRITTEN, R.REJECTED}),
        R.WRITTEN: frozenset({R.REVIEWING, R.SIGNED, R.REJECTED}),
        R.SIGNED: frozenset({R.AMENDED}),
        R.AMENDED: frozenset({R.AMENDED}),
        R.REJECTED: frozenset(),
        A.OPEN: frozenset({A.ACKNOWLEDGED, A.WAIVED}),
        A.ACKNOWLEDGED: frozenset(),
        A.WAIVED: frozenset({A.ACKNOWLEDGED, A.OPEN}),  # open again when a later revision's draft speaks of it
    }
)
REQUEST_MOVES: Mapping[Machine, frozenset[Machine]] = MappingProxyType(  # a mapping of its own: its states are called like those of jobs
    {
        Q.WAITING: frozenset({Q.DRAFTING}),
        Q.DRAFTING: frozenset({Q.WAITING, Q.DRAFTED, Q.FAILED}),  # back when its lease ran out, or when the study has a newer revision
        Q.DRAFTED: frozenset(),
        Q.FAILED: frozenset(),
    }
)


class Step(enum.StrEnum):
    """One name per step: its file, function, task, queue, metric and log event."""

    RECEIVE = "receive"
    ASSEMBLE = "assemble"
    DOSE = "dose"
    ENCODE = "encode"
    DRAFT = "draft"
    CHECK = "check"
    PERSIST = "persist"
    DELIVER = "deliver"
    MAINTENANCE = "maintenance"


class Priority(enum.IntEnum):
    """Sort order of the claim; a lower number goes first."""

    STAT = 0
    INPATIENT = 1
    ROUTINE = 2
    NIGHT = 3


class Side(enum.StrEnum):
    """Patient side, from patient coordinates (LPS: +x is the patient's left)."""

    LEFT = "左"
    RIGHT = "右"


class Severity(enum.StrEnum):
    """What a rule's hit means for the reader."""

    REPLACED = "replaced"
    FLAG = "flag"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Instance:
    """One received SOP instance: header facts needed before pixels are read. Positions in mm, patient LPS."""

    sop_uid: str
    sop_class: str
    transfer_syntax: str
    study_uid: str
    series_uid: str
    modality: str
    sha256: str
    size_bytes: int
    path: str  # relative to the archive root
    instance_number: int | None = None
    rows: int | None = None
    columns: int | None = None
    position_mm: tuple[float, float, float] | None = None
    orientation: tuple[float, ...] | None = None  # six direction cosines
    image_type: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    content: str = ""  # dose-report, dose-screen: for the dose step, never for the encoder; empty otherwise
    frames: int = 1  # NumberOfFrames; a multi-frame object has no position or orientation here, its frames do
    acquisition: int | None = None  # AcquisitionNumber
    temporal: int | None = None  # TemporalPositionIdentifier: the phase of a 4D series
    lossy: bool = False  # LossyImageCompression is 01, whatever the transfer syntax


@dataclass(frozen=True, slots=True)
class Series:
    """The instances of one series, with the header facts that choosing it needs."""

    series_uid: str
    modality: str
    description: str
    body_part: str
    kernel: str
    thickness_mm: float | None
    instances: tuple[Instance, ...]
    number: int | None = None  # SeriesNumber, as the scanner's list shows it
    kvp: float | None = None
    contrast_agent: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """Who was scanned, repaired for reading; `name_guess` is True when the character set had to be guessed."""

    patient_id: str
    issuer: str
    name: str
    name_guess: bool
    birth_date: date | None
    sex: str
    name_charset: str = ""  # what the bytes of the name were read as


@dataclass(frozen=True, slots=True)
class Header:
    """Everything that the receive step reads from one data set."""

    instance: Instance
    patient: Patient
    accession: str
    study_date: date | None
    study_description: str
    indication: str  # ReasonForTheRequestedProcedure, else RequestedProcedureDescription, else empty
    series_description: str
    body_part: str
    kernel: str
    thickness_mm: float | None
    station: str
    priority: Priority = Priority.ROUTINE
    text_guess: bool = False  # the character set of the description or the indication had to be guessed
    series_number: int | None = None
    kvp: float | None = None
    contrast_agent: str = ""  # empty: none is named
    protocol: str = ""
    requesting_service: str = ""  # RequestingService: the department that asked for the examination, as it names itself


@dataclass(frozen=True, slots=True)
class Study:
    """One study as the store knows it. `id` is the internal UUID that logs and tasks carry."""

    id: UUID
    study_uid: str
    state: StudyState
    revision: int
    first_received: datetime
    last_received: datetime
    images: int
    indication: str
    description: str
    series: tuple[Series, ...] = ()  # without rejected images
    station: str = ""


@dataclass(frozen=True, slots=True)
class RankedStack:
    """One stack of images that may be read, by its place in the choice. `refusal`: why it was preferred and yet not read, empty otherwise."""

    series_uid: str
    number: int | None
    stack: str  # which part of the series; empty for all of its images
    files: tuple[str, ...]  # archive-relative paths
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One revision of one study on its way to a draft, as claimed under a lease."""

    id: UUID
    study_id: UUID
    study_uid: str
    revision: int
    state: JobState
    priority: Priority
    attempts: int
    series_uids: tuple[str, ...]
    files: tuple[str, ...]  # archive-relative paths of the frozen list, in slice order of the database
    is_phantom: bool
    indication: str
    features_path: str | None = None
    image_flags: tuple[str, ...] = ()  # what the listener noted about any image of the study
    completeness: str = ""  # empty when the revision was frozen complete, else why it is partial, as a reader reads it
    ranked: tuple[RankedStack, ...] = ()  # what may be read, best first; `files` are those of one of them. Empty: there is nothing else
    requesting_service: str = ""  # as in Header
    cause: str = ""  # why this revision was made, see `renewing.Cause`; empty: the first


@dataclass(frozen=True, slots=True)
class RejectedImage:
    """One image that a rejection note names, with the study that the note places it in."""

    study_uid: str
    sop_uid: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejection note (IHE IOCM): a key object selection titled with a code of PS3.16 CID 7011, and the images that it names."""

    ko_sop_uid: str
    code: str
    meaning: str
    study_uid: str  # the note's own
    images: tuple[RejectedImage, ...]

    @property
    def sop_uids(self) -> tuple[str, ...]:
        """Every image that is named."""
        return tuple(image.sop_uid for image in self.images)

    @property
    def bars(self) -> bool:
        """False when the images were only kept long enough (113039): what was read from them stays true."""
        return self.code != RETENTION_EXPIRED


@dataclass(frozen=True, slots=True)
class Candidate:
    """One region that the encoder proposes, in patient coordinates. Findings refer to it by `index` (1-based)."""

    index: int
    kind: str  # 结节 | 实变 | 淋巴结 | 囊肿 | 血管瘤 | 低密度灶
    center_mm: tuple[float, float, float]  # patient LPS
    side: Side  # where it lies, also of what the report places in 纵隔 or 肝脏
    lobe: str | None  # 上叶 | 中叶 | 下叶; None: not measured, or outside the lungs
    density: str | None  # 实性 | 磨玻璃 | 部分实性; None: not measured, or outside the lungs
    size_mm: float
    score: float  # 0..1
    slice_sop_uid: str | None = None
    slice_frame: int = 1  # of that object, 1-based
    margin: str | None = None  # 光滑 | 分叶 | 毛刺 | 模糊; None: not measured
    calcified: bool | None = None  # None: not measured
    retraction: bool | None = None  # 胸膜牵拉; None: not measured


@dataclass(frozen=True)
class Features:
    """What an encoder says about one volume: `array` is float32 `(N, D)`, with its provenance."""

    array: NDArray[np.float32]  # (N, D)
    encoder: str
    version: str
    preprocessing: str  # hash of everything that happened before the network
    candidates: tuple[Candidate, ...] = ()
    effusion: tuple[Side, ...] | None = None  # None: nobody looked
    flags: tuple[str, ...] = ()
    phantom_only: bool = True  # unless the encoder's card says `live`
    source: str = ""  # digest of the image files that were read: the series' revision
    covers: tuple[str, ...] = ()  # organs that the volume shows, as terms: 肺 纵隔 肝 …
    contrast: bool | None = None  # contrast agent was given; None where the header does not say
    noise_hu: float | None = None  # standard deviation in uniform tissue
    denoised: bool = False
    key_slices: tuple[tuple[str, int], ...] = ()  # SOP Instance UID and frame of the slices that a reader would look at first
    frame: Frame | None = None  # for comparing positions with other examinations
    emphysema: tuple[Side, ...] | None = None  # None: nobody looked
    fibrosis: tuple[Side, ...] | None = None  # None: nobody looked
    ood: float | None = None  # distance from the images that the encoder was validated on; None: nobody measured

    @property
    def identity(self) -> str:
        """What made it: the same identity and the same source are the same features."""
        return f"{self.encoder}/{self.version}/{self.preprocessing}"


@dataclass(frozen=True, slots=True)
class Generation:
    """How a text was generated. `accepted_histogram[i]` counts the verify steps that accepted i drafted tokens."""

    tokens: int
    verify_count: int
    accepted_histogram: tuple[int, ...]
    seconds: float
    forced: int = 0  # tokens that the grammar left no choice about, jumped over without a forward pass
    positions: tuple[tuple[int, int], ...] = ()  # (drafted, accepted) at position 1, 2, … of a draft, forced tokens excluded
    sections: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # section → (tokens, drafted, accepted)
    sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # mtp | lookup → (drafted, accepted)
    first_token_s: float | None = None  # seconds until the first token; None where it was not seen
    k: int | None = None  # tokens drafted per step where that was one number; None: the engine's own policy
    lengths: Mapping[str, int | None] = field(default_factory=dict)  # section → k, of a text that was written in sections

    @property
    def acceptance(self) -> float:
        """Drafted tokens accepted per drafted token, forced ones excluded; 0.0 when nothing was drafted. Without positions: by the histogram."""
        if self.positions:
            drafted, accepted = (sum(column) for column in zip(*self.positions, strict=True))
            return accepted / drafted if drafted else 0.0
        depth = len(self.accepted_histogram) - 1
        drafted = depth * sum(self.accepted_histogram)
        accepted = sum(i * n for i, n in enumerate(self.accepted_histogram))
        return accepted / drafted if drafted else 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One structured finding of a report. Terms are the schema's Chinese enum values."""

    candidate: int | None
    kind: str  # 结节 | 实变 | 淋巴结 | 肝囊肿 | 肝血管瘤 | 肝低密度灶 | 胸腔积液 | 肺气肿 | 纤维化
    side: str  # 左肺 | 右肺 of a lung lesion, 纵隔 of a node, 肝脏 of a liver lesion, 左侧 | 右侧 | 双侧 of the rest
    lobe: str | None
    density: str | None
    size_mm: int | None  # of a node: its short axis
    margin: str | None = None  # 光滑 | 分叶 | 毛刺 | 模糊
    internal: str | None = None  # 均匀 | 钙化
    surround: str | None = None  # 无 | 胸膜牵拉


@dataclass(frozen=True, slots=True)
class Report:
    """A validated draft: its three sections as a radiologist reads them, and its structured findings."""

    findings_text: str  # 检查所见
    impression: str  # 诊断意见
    advice: str  # 建议
    findings: tuple[Finding, ...] = ()

    def sections(self) -> dict[str, str]:
        """The three sections under their Chinese names, in reading order."""
        return {"检查所见": self.findings_text, "诊断意见": self.impression, "建议": self.advice}


@dataclass(frozen=True, slots=True)
class DraftSource:
    """Where a draft came from."""

    rung: str  # embedded | sglang | sglang-plain | vllm | fake
    model: str
    model_digest: str
    phantom_only: bool
    server: str = ""  # name and version of the draft server; empty: embedded
    speculation: str = ""  # how the server drafts, as it reports it; empty: the engine's own policy


@dataclass(frozen=True, slots=True)
class DraftAnswer:
    """What a drafter returns: the raw text, how it was made and by whom."""

    text: str
    generation: Generation
    source: DraftSource


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one revision as JSON text, made once and frozen: every department's text is written from them. `whole` is the first
    department's report where it was written in the same call."""

    text: str
    generation: Generation
    source: DraftSource
    whole: DraftAnswer | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """What makes positions of two examinations comparable: the box around both lungs (x, y, z low, then high), the midline, and the slices, in mm
    of patient LPS."""

    lungs_mm: tuple[float, float, float, float, float, float]
    midline_mm: float
    step_mm: float  # between slices
    thickness_mm: float  # of one slice


@dataclass(frozen=True, slots=True)
class Lease:
    """Who works, and for how long without a heartbeat."""

    owner: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the archive put some bytes. `fresh` is False when the same bytes were already there."""

    path: str
    sha256: str
    size_bytes: int
    fresh: bool
