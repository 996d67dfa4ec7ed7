"""What the listener takes: SOP classes worth keeping in a CT study, and transfer syntaxes. Nothing is ever decoded to be received."""

from __future__ import annotations

from collections.abc import Sequence

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
from pynetdicom.service_class import StorageServiceClass
from pynetdicom.sop_class import register_uid, uid_to_service_class

LABEL_MAP_SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.7"  # PS3.4 2024c, younger than the library's list

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
    sop.PositronEmissionTomographyImageStorage,  # of a PET-CT, beside its CT series
    # what was made of images
    sop.SegmentationStorage,
    sop.SurfaceSegmentationStorage,
    LABEL_MAP_SEGMENTATION,
    sop.ParametricMapStorage,
    sop.RealWorldValueMappingStorage,
    sop.SpatialRegistrationStorage,
    sop.DeformableSpatialRegistrationStorage,
    sop.SpatialFiducialsStorage,
    sop.RawDataStorage,
    # structured reports and dose
    sop.BasicTextSRStorage,
    sop.EnhancedSRStorage,
    sop.ComprehensiveSRStorage,
    sop.Comprehensive3DSRStorage,
    sop.ExtensibleSRStorage,
    sop.XRayRadiationDoseSRStorage,
    sop.EnhancedXRayRadiationDoseSRStorage,
    sop.PatientRadiationDoseSRStorage,
    sop.RadiopharmaceuticalRadiationDoseSRStorage,
    sop.AcquisitionContextSRStorage,
    sop.PlannedImagingAgentAdministrationSRStorage,
    sop.PerformedImagingAgentAdministrationSRStorage,
    sop.CTPerformedProcedureProtocolStorage,
    sop.ChestCADSRStorage,
    sop.ColonCADSRStorage,
    sop.KeyObjectSelectionDocumentStorage,
    # presentation states and documents
    sop.GrayscaleSoftcopyPresentationStateStorage,
    sop.ColorSoftcopyPresentationStateStorage,
    sop.PseudoColorSoftcopyPresentationStateStorage,
    sop.BlendingSoftcopyPresentationStateStorage,
    sop.AdvancedBlendingPresentationStateStorage,
    sop.GrayscalePlanarMPRVolumetricPresentationStateStorage,
    sop.CompositingPlanarMPRVolumetricPresentationStateStorage,
    sop.VolumeRenderingVolumetricPresentationStateStorage,
    sop.SegmentedVolumeRenderingVolumetricPresentationStateStorage,
    sop.MultipleVolumeRenderingVolumetricPresentationStateStorage,
    sop.EncapsulatedPDFStorage,
    sop.EncapsulatedCDAStorage,
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


def offered(private: Sequence[str] = ()) -> tuple[str, ...]:
    """Every storage SOP class that is taken, with private ones of a site; those that the library does not know are made known to it."""
    classes = tuple(dict.fromkeys([*map(str, SOP_CLASSES), *private]))
    for sop_class in classes:
        if uid_to_service_class(sop_class) is not StorageServiceClass:
            register_uid(sop_class, f"Storage_{sop_class.replace('.', '_')}", StorageServiceClass)
    return classes
