"""What the listener takes: SOP classes worth keeping in a CT study, and transfer syntaxes. Nothing is ever decoded to be received."""

from __future__ import annotations

from pydicom import uid as sop
from pydicom.uid import (
    HTJ2K,
    JPEG2000,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    HTJ2KLossless,
    HTJ2KLosslessRPCL,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    JPEGLSNearLossless,
    RLELossless,
)

SOP_CLASSES: tuple[str, ...] = (
    # images
    sop.CTImageStorage,
    sop.EnhancedCTImageStorage,
    sop.LegacyConvertedEnhancedCTImageStorage,
    sop.SecondaryCaptureImageStorage,
    sop.MultiFrameSingleBitSecondaryCaptureImageStorage,
    sop.MultiFrameGrayscaleByteSecondaryCaptureImageStorage,
    sop.MultiFrameGrayscaleWordSecondaryCaptureImageStorage,
    sop.MultiFrameTrueColorSecondaryCaptureImageStorage,
    sop.SegmentationStorage,
    # structured reports and dose
    sop.BasicTextSRStorage,
    sop.EnhancedSRStorage,
    sop.ComprehensiveSRStorage,
    sop.Comprehensive3DSRStorage,
    sop.ExtensibleSRStorage,
    sop.XRayRadiationDoseSRStorage,
    sop.EnhancedXRayRadiationDoseSRStorage,
    sop.PatientRadiationDoseSRStorage,
    sop.ChestCADSRStorage,
    sop.KeyObjectSelectionDocumentStorage,
    # presentation states and documents
    sop.GrayscaleSoftcopyPresentationStateStorage,
    sop.ColorSoftcopyPresentationStateStorage,
    sop.PseudoColorSoftcopyPresentationStateStorage,
    sop.BlendingSoftcopyPresentationStateStorage,
    sop.EncapsulatedPDFStorage,
    sop.SpatialRegistrationStorage,
    sop.RawDataStorage,
)

# Retired ones (.53, .55) are taken as well: the bytes are kept, and whoever has to decode them says that it cannot.
TRANSFER_SYNTAXES: tuple[str, ...] = (
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    JPEGLosslessSV1,
    JPEGLossless,
    JPEGLSLossless,
    JPEG2000Lossless,
    HTJ2KLossless,
    HTJ2KLosslessRPCL,
    RLELossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLSNearLossless,
    JPEG2000,
    HTJ2K,
    "1.2.840.10008.1.2.4.53",
    "1.2.840.10008.1.2.4.55",
)
