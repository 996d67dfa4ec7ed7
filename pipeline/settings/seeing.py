"""Images: volumes and their encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from pipeline.settings.room import Room


class ImagingSettings(Room):
    """From slices to a volume."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_IMAGING_")
    tilt: Literal["resample", "refuse"] = Field(
        "resample", description="what is done with a series whose slices lean against the stack (gantry tilt)"
    )
    workers: int = Field(0, ge=0, le=64, description="threads that decode the slices of a series; 0 takes the processors there are, at most 8")
    max_voxels: int = Field(
        1_000_000_000, ge=1_000_000, description="voxels of the largest series that is read; more are refused before memory is taken"
    )
    key_slices: int = Field(32, ge=0, description="slices per study that image encoders look at, chosen by content; 0 takes every slice")
    denoise: Literal["auto", "never", "always"] = Field(
        "auto",
        description="denoise a chest before it is encoded; auto: when its noise asks for it. In mode site only a denoiser registered live does so: "
        "the packaged one knows phantoms only",
    )
    denoise_above_hu: float = Field(
        25.0,
        gt=0,
        description="noise in HU above which auto denoises; 1.6 times as much at full dose (80 mAs or more), where the kernel makes the noise",
    )


class EncoderSettings(Room):
    """Image encoder."""

    model_config = SettingsConfigDict(env_prefix="CTREPORT_ENCODER_")
    name: Literal["compact", "resnet50", "vit", "medsam"] = Field("compact", description="which network looks at the images")
    weights: str | None = Field(
        None, description="folder of the encoder's weights (safetensors), or hub:owner/name; unset: the packaged phantom-only encoder"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where resnet50, vit and medsam run; auto takes a GPU where there is one")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="number format on the GPU; the processor takes float32")
    batch_mb: int = Field(
        8192,
        ge=64,
        description="MiB of GPU memory that one pass of pictures, of several studies, may take; "
        "studies wait while the GPU has less than a quarter of it left",
    )
    views: Literal["slices", "regions"] = Field("slices", description="what resnet50 and vit look at: key slices, or crops around candidate regions")
    channels: Literal["windows", "neighbours"] = Field(
        "windows", description="the three colours of a picture: 肺窗, 纵隔窗 and 骨窗 of one slice, or 肺窗 of a slice between its neighbours"
    )
    rois: int = Field(
        4, ge=1, le=8, description="regions per study of medsam (196 tokens each) and of views by region; whole lungs where there are fewer"
    )
