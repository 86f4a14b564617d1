"""The models that the studio knows by name: where each comes from, its licence, how it is run.

Sizes in bytes are about what a download takes; the exact one is asked of the hub before it starts.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipelines.base import Task
from pipelines.infinitetalk.checkpoint import AUDIO_ENCODER_FILES
from pipelines.infinitetalk.defaults import AS_LONG_AS_THE_VOICE
from pipelines.infinitetalk.defaults import EXTRAS as TALKING_EXTRAS
from pipelines.infinitetalk.defaults import NEGATIVE_PROMPT as TALKING_NEGATIVE
from pipelines.infinitetalk.defaults import PUBLISHED as TALKING_DEFAULTS
from pipelines.model import Model, Repository

STARTER = Path(__file__).resolve().parent.parent / "assets" / "starter"
APACHE = {
    "licence": "Apache-2.0",
    "licence_url": "https://www.apache.org/licenses/LICENSE-2.0",
}


def _skyreels(id: str, size: str, download_bytes: int, **settings: Any) -> Model:
    defaults = {
        "fps": 24,
        "overlap": 17,
        "segments": 1,
        "steps": 30,
        "guidance_scale": 6.0,
        "shift": 8.0,
        "ar_step": 0,
        "causal_block": 1,
        "condition_noise": 20,
    }
    return Model(
        id=id,
        name=f"SkyReels-V2 DF {size.replace('-', ' ')}",
        family="skyreels_v2",
        source=f"Skywork/SkyReels-V2-DF-{size}-Diffusers",
        licence="Skywork Community License",
        licence_url="https://github.com/SkyworkAI/SkyReels-V2/blob/main/LICENSE.txt",
        download_bytes=download_bytes,
        tasks=(Task.T2V, Task.I2V),
        defaults=MappingProxyType(defaults | settings),
        note="From a picture, guidance 5 and shift 5 are recommended.",
        sizes=_720P_SIZES if "720P" in size else _540P_SIZES,
        needs=_GPU_OF[size],
    )


_540P = {"width": 960, "height": 544, "frames": 97}
_720P = {"width": 1280, "height": 720, "frames": 121}
_540P_SIZES = ((960, 544), (544, 960))
_720P_SIZES = ((1280, 720), (720, 1280), *_540P_SIZES)
_GPU_OF = {
    "1.3B-540P": "An NVIDIA GPU; its authors name about 15 GB of GPU memory.",
    "14B-540P": "An NVIDIA GPU; its authors name about 51 GB of GPU memory.",
    "14B-720P": "An NVIDIA GPU with 80 GB of memory or more.",
}


_ONE_PIECE = {"overlap": 0, "segments": 1, "weights": "auto", "offload": "auto", "tiling": "auto"}
_HELD = ("loras", "weights", "offload", "tiling")
_480P = ((832, 480), (480, 832))
_WAN_720P = ((1280, 720), (720, 1280))


def _wan(
    id: str,
    name: str,
    hub: str,
    gigabytes: float,
    needs: str,
    sizes: tuple[tuple[int, int], ...],
    extras: tuple[str, ...] = (),
    note: str = "",
    **settings: Any,
) -> Model:
    defaults = {
        "width": sizes[0][0],
        "height": sizes[0][1],
        "fps": 16,
        "frames": 81,
        "steps": 50,
        "guidance_scale": 5.0,
        "shift": 3.0,
    }
    pictures = (Task.T2V,) if "T2V" in name else (Task.I2V,)
    return Model(
        id=id,
        name=name,
        family="wan",
        source=f"Wan-AI/{hub}",
        **APACHE,
        download_bytes=round(gigabytes * 1e9),
        tasks=(Task.T2V, Task.I2V) if "TI2V" in name else pictures,
        defaults=MappingProxyType(defaults | _ONE_PIECE | settings),
        sizes=sizes,
        needs=needs,
        note=note,
        extras=(*_HELD, *extras),
    )


_OF_14B = "An NVIDIA GPU with 40 GB of memory; with less, and 48 GB of main memory, it is slower."
_OF_A14B = "An NVIDIA GPU with 40 GB of memory and 80 GB of main memory; with less it is slower."
_TWO = ("guidance_scale_2",)
_720P_SHIFT = "At 720p a shift of 5 is recommended."

_WANS = (
    _wan(
        "wan2.1-t2v-1.3b",
        "Wan2.1 T2V 1.3B",
        "Wan2.1-T2V-1.3B-Diffusers",
        29,
        "An NVIDIA GPU with 8 GB of memory or more.",
        _480P,
    ),
    _wan(
        "wan2.1-t2v-14b",
        "Wan2.1 T2V 14B",
        "Wan2.1-T2V-14B-Diffusers",
        80,
        _OF_14B,
        (*_480P, *_WAN_720P),
        note=_720P_SHIFT,
    ),
    _wan(
        "wan2.1-i2v-14b-480p",
        "Wan2.1 I2V 14B 480P",
        "Wan2.1-I2V-14B-480P-Diffusers",
        90,
        _OF_14B,
        _480P,
    ),
    _wan(
        "wan2.1-i2v-14b-720p",
        "Wan2.1 I2V 14B 720P",
        "Wan2.1-I2V-14B-720P-Diffusers",
        90,
        _OF_14B,
        (*_WAN_720P, *_480P),
        shift=5.0,
    ),
    _wan(
        "wan2.1-flf2v-14b-720p",
        "Wan2.1 FLF2V 14B 720P",
        "Wan2.1-FLF2V-14B-720P-diffusers",
        90,
        _OF_14B,
        (*_WAN_720P, *_480P),
        ("last_image",),
        note="From a first picture to a last one.",
        shift=5.0,
    ),
    _wan(
        "wan2.2-t2v-a14b",
        "Wan2.2 T2V A14B",
        "Wan2.2-T2V-A14B-Diffusers",
        126,
        _OF_A14B,
        (*_WAN_720P, *_480P),
        _TWO,
        note="Two transformers, for high and for low noise, each with its guidance.",
        steps=40,
        guidance_scale=4.0,
        guidance_scale_2=3.0,
        shift=12.0,
    ),
    _wan(
        "wan2.2-i2v-a14b",
        "Wan2.2 I2V A14B",
        "Wan2.2-I2V-A14B-Diffusers",
        126,
        _OF_A14B,
        (*_WAN_720P, *_480P),
        (*_TWO, "last_image"),
        note="Two transformers, for high and for low noise, each with its guidance.",
        steps=40,
        guidance_scale=3.5,
        guidance_scale_2=3.5,
        shift=5.0,
    ),
    _wan(
        "wan2.2-ti2v-5b",
        "Wan2.2 TI2V 5B",
        "Wan2.2-TI2V-5B-Diffusers",
        34,
        "An NVIDIA GPU with 16 GB of memory or more.",
        ((1280, 704), (704, 1280)),
        fps=24,
        frames=121,
        shift=5.0,
    ),
)


def _qwen(id: str, version: str, edits: bool, several: bool = False, steps: int = 50) -> Model:
    sizes = _EDIT_SIZES if edits else _QWEN_SIZES
    defaults = {
        "width": sizes[0][0],
        "height": sizes[0][1],
        "fps": 1,
        "frames": 1,
        "steps": steps,
        "guidance_scale": 4.0,
    }
    return Model(
        id=id,
        name=f"Qwen-{version.replace('-', ' ')}",
        family="qwen_image",
        source=f"Qwen/Qwen-{version}",
        **APACHE,
        download_bytes=58_000_000_000,
        tasks=(Task.I2I,) if edits else (Task.T2I,),
        defaults=MappingProxyType(defaults | _ONE_PIECE),
        sizes=sizes,
        needs="An NVIDIA GPU with 48 GB of memory; with less, and 64 GB of main memory, slower.",
        note="The prompt may speak of Picture 1, Picture 2…" if several else "",
        extras=(*_HELD, "references") if several else _HELD,
    )


_QWEN_SIZES = (
    (1328, 1328),
    (1664, 928),
    (928, 1664),
    (1472, 1104),
    (1104, 1472),
    (1584, 1056),
    (1056, 1584),
)
_EDIT_SIZES = ((1024, 1024), (1184, 880), (880, 1184), (1392, 752), (752, 1392))

_QWENS = (
    _qwen("qwen-image", "Image", edits=False),
    _qwen("qwen-image-2512", "Image-2512", edits=False),
    _qwen("qwen-image-edit", "Image-Edit", edits=True),
    _qwen("qwen-image-edit-2509", "Image-Edit-2509", edits=True, several=True, steps=40),
    _qwen("qwen-image-edit-2511", "Image-Edit-2511", edits=True, several=True, steps=40),
)


def _infinitetalk(persons: str, weights: str, note: str) -> Model:
    return Model(
        id=f"infinitetalk-14b{persons}",
        name=f"InfiniteTalk 14B{persons.replace('-', ' ')}",
        family="infinitetalk",
        source=STARTER.parent / "infinitetalk" / weights,
        # That of the audio encoder is the second.
        **APACHE | {"licence": "Apache-2.0, MIT"},
        download_bytes=100_000_000_000,
        tasks=(Task.S2V,),
        defaults=MappingProxyType({**TALKING_DEFAULTS, "negative_prompt": TALKING_NEGATIVE}),
        sizes=((640, 640), (960, 960), (896, 448), (448, 896), (768, 512), (512, 768)),
        needs=_OF_14B,
        note=note,
        extras=TALKING_EXTRAS,
        parts=(
            Repository("Wan-AI/Wan2.1-I2V-14B-480P-Diffusers"),
            Repository("MeiGen-AI/InfiniteTalk", (f"{weights}/infinitetalk.safetensors",)),
            Repository(
                "TencentGameMate/chinese-wav2vec2-base",
                ("config.json", "preprocessor_config.json", AUDIO_ENCODER_FILES),
            ),
        ),
    )


_FOLLOWS = "640 x 640 and 960 x 960 follow the picture's proportions."
_TALKING = (
    _infinitetalk("", "single", f"A picture and a voice. {_FOLLOWS}"),
    _infinitetalk("-multi", "multi", f"A picture of two, a voice for each. {_FOLLOWS}"),
)

MODELS = (
    Model(
        id="starter",
        name="Starter",
        family="skyreels_v2",
        source=STARTER,
        **APACHE,
        download_bytes=0,
        tasks=(Task.T2V,),
        defaults=MappingProxyType(
            {
                "width": 96,
                "height": 64,
                "fps": 12,
                "frames": 33,
                "overlap": 9,
                "segments": 4,
                "steps": 20,
                "guidance_scale": 3.0,
                "shift": 3.0,
                "ar_step": 0,
                "causal_block": 3,
                "condition_noise": 0,
            }
        ),
        note="Small storybook scenes, made for this studio.",
        sizes=((96, 64),),
        needs="Any machine: it runs on a CPU.",
    ),
    Model(
        id="talking",
        name="Talking starter",
        family="infinitetalk",
        source=STARTER.parent / "talking",
        **APACHE,
        download_bytes=0,
        tasks=(Task.S2V,),
        defaults=MappingProxyType(
            {
                "width": 96,
                "height": 64,
                "fps": 25,
                "frames": 33,
                "overlap": 9,
                "segments": AS_LONG_AS_THE_VOICE,
                "steps": 8,
                "guidance_scale": 1.0,
                "audio_scale": 1.5,
                "shift": 3.0,
                "color_correction": 0.0,
                "apg": 0.0,
            }
        ),
        note="Drawn faces that speak, made for this studio: give it a picture and a voice.",
        sizes=((96, 64),),
        needs="Any machine: it runs on a CPU.",
        extras=TALKING_EXTRAS,
    ),
    _skyreels("skyreels-v2-df-1.3b-540p", "1.3B-540P", 29_000_000_000, **_540P),
    _skyreels("skyreels-v2-df-14b-540p", "14B-540P", 81_000_000_000, **_540P),
    _skyreels("skyreels-v2-df-14b-720p", "14B-720P", 81_000_000_000, **_720P),
    *_WANS,
    *_QWENS,
    *_TALKING,
)
