"""InfiniteTalk as the studio sees it: the seam over the stages of this package.

torch, diffusers and transformers are imported where a stage first needs them, not with this file.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.base import (
    BasePipeline,
    Capabilities,
    Fields,
    OnStep,
    Plan,
    Request,
    SegmentOutput,
    Task,
    Tensors,
)
from pipelines.errors import BadInput
from pipelines.infinitetalk.checkpoint import DENOISER, PICTURE, TEXT, VOICE, Checkpoint
from pipelines.infinitetalk.defaults import EXTRAS, defaults
from pipelines.infinitetalk.endings import most_kept
from pipelines.infinitetalk.inputs import SMALL_DTYPE, encoder_inputs, segment_inputs
from pipelines.infinitetalk.plan import (
    check_recipe,
    latent_frames,
    longest,
    make_plan,
    strengths,
    video_size,
)
from pipelines.infinitetalk.windows import chain_of

if TYPE_CHECKING:
    import torch

    from pipelines.infinitetalk.denoise import Condition
    from pipelines.one_piece.watch import Watch
    from pipelines.preview import Projection

OF_PART = {"image": PICTURE, "audio": VOICE, "audio_2": VOICE, "faces": ()}
"""What encoding a part needs; the prompts need the text encoder."""


class InfiniteTalk(BasePipeline):
    """A picture and one or two voices. Segment i starts from the latents of the last M frames of
    segment i - 1, encoded anew, and from nothing else of it."""

    capabilities: Capabilities = Capabilities(
        tasks=(Task.S2V,),
        encoder_reuse=True,
        segment_reuse=True,
        extras=EXTRAS,
    )
    pipeline_classes: ClassVar[tuple[str, ...]] = Checkpoint.pipelines
    """What `_class_name` of a model_index.json may be."""

    def __init__(
        self, checkpoint: Checkpoint, dtype: str | torch.dtype | None, device: str | None
    ) -> None:
        self.checkpoint = checkpoint
        self._wanted = (dtype, device)
        self._components: dict[str, Any] = {}
        self._signatures: dict[str, Any] = {}

    @classmethod
    def open(
        cls,
        folder: Path,
        dtype: str | torch.dtype | None = None,
        device: str | None = None,
    ) -> InfiniteTalk:
        """Reads model_index.json of a folder, and no weights.

        By default bfloat16 on CUDA where there is one, otherwise float32 on the CPU. Raises
        BadInput for a folder of another kind, ModelMissing for one whose parts are not here.
        """
        return cls(Checkpoint.read(folder), dtype, device)

    @classmethod
    def describe(cls, folder: Path) -> tuple[tuple[Task, ...], dict[str, Any]]:
        """(tasks, recipe defaults) of a checkpoint that no catalogue knows, from its configs.

        Reads all of the folder but the weights; raises BadInput naming what is missing or damaged.
        """
        checkpoint = Checkpoint.read(folder)
        checkpoint.check()
        return cls.capabilities.tasks, defaults(checkpoint)

    @property
    def loaded(self) -> frozenset[str]:
        return frozenset(self._components)

    @property
    def components(self) -> Mapping[str, Any]:
        """What is in memory, by name: for what attaches to a model from outside."""
        return MappingProxyType(self._components)

    @cached_property
    def _placement(self) -> tuple[str, str]:
        from pipelines.components import resolve

        return resolve(*self._wanted)

    @property
    def dtype(self) -> str:
        return self._placement[0]

    @property
    def device(self) -> str:
        return self._placement[1]

    def plan(self, recipe: Request) -> Plan:
        return make_plan(recipe, self.checkpoint)

    def most_kept(self, kept: Request, asked: Request) -> int:
        return most_kept(kept, asked)

    def encoder_inputs(self, recipe: Request) -> dict[str, Fields]:
        return encoder_inputs(recipe, self.checkpoint, self.dtype, self.device)

    def segment_inputs(self, recipe: Request) -> Fields:
        return segment_inputs(recipe, self.checkpoint, self.dtype, self.device)

    def load_encoders(self, parts: Collection[str]) -> None:
        """The transformer leaves the memory first, if it is there: it and the encoders are each as
        large as machines have room for."""
        needed = [name for part in parts for name in OF_PART.get(part, TEXT)]
        chosen = [name for name in dict.fromkeys(needed) if self._uses(name)]
        if not set(chosen) <= self.loaded:
            self._free(["transformer"])
        self._load(chosen)

    def free_encoders(self) -> None:
        self._free((*TEXT, "image_encoder", *VOICE))

    def encode(self, recipe: Request, parts: Collection[str]) -> dict[str, Tensors]:
        """`embeds` `[tokens, dim]` of the prompts, without padding; of the picture `pixels`,
        `latents`, `condition` and `clip`; `embeds` `[T, layers, hidden]` of a voice; `masks`
        `[3, h, w]` of two persons. Raises BadInput for a file that cannot be used."""
        import torch

        from pipelines.threads import steady_threads

        outputs: dict[str, Tensors] = {}
        for part in parts:
            self.load_encoders([part])
            models = [self._components.get(name) for name in OF_PART.get(part, TEXT)]
            models = [model for model in models if hasattr(model, "parameters")]
            with torch.no_grad(), steady_threads(*models):
                outputs[part] = self._encoded(recipe, part)
        return outputs

    def load_denoiser(self, recipe: Request | None = None) -> None:
        self.free_encoders()
        self._load(DENOISER)

    def free_denoiser(self) -> None:
        self._free(DENOISER)

    def generate(
        self,
        recipe: Request,
        inputs: Tensors,
        i: int,
        boundary: Tensors | None,
        generator: torch.Generator,
        on_step: OnStep | None = None,
    ) -> SegmentOutput:
        """Segment i, from its noise and its boundary `{"latents": [1, C, Mo, h, w]}` alone.

        All that is drawn from `generator` is the noise of the segment. Raises BadInput if the
        recipe or the boundary does not fit, and whatever `on_step` raises.
        """
        import torch

        from pipelines.infinitetalk import denoise
        from pipelines.infinitetalk.codec import VaeCodec
        from pipelines.infinitetalk.encoders import as_video
        from pipelines.infinitetalk.guidance import Guidance
        from pipelines.preview import sample
        from pipelines.threads import steady_threads

        check_recipe(recipe, self.checkpoint)
        chain = chain_of(
            len(inputs["audio_embeds"]), recipe.segments, recipe.frames, recipe.overlap
        )
        if not 0 <= i < chain.segments:
            raise BadInput("segments", i + 1, f"This voice takes {chain.segments}.")
        motion = self._motion(recipe, inputs, i, boundary)
        self.load_denoiser(recipe)
        transformer, vae = self._components["transformer"], self._components["vae"]
        given = strengths(recipe)
        watch = self._watch(recipe, on_step)
        began = time.perf_counter()
        with torch.inference_mode(), steady_threads(transformer, vae), watch.inside(transformer):
            noise = torch.randn(inputs["image_condition"].shape, generator=generator)
            guidance = Guidance(given.text, given.audio, given.apg)
            latents = denoise.denoise(
                denoise.Denoiser(transformer, self._condition(recipe, inputs, i), guidance),
                noise.to(self.device),
                motion.to(self.device),
                denoise.timesteps_of(recipe.steps, recipe.shift),
                lambda n, clean: watch.on_step_end(None, n - 1, None, {"latents": clean}),
            )
            if self.device.startswith("cuda"):
                torch.cuda.synchronize()
            denoised = time.perf_counter()
            video, next_motion = denoise.finish(
                VaeCodec(vae),
                latents,
                as_video(inputs["image_pixels"]).to(self.device),
                recipe.overlap,
                given.colours,
            )
            first, end = chain.new_frames(i)
            dropped = recipe.overlap if i else 0
            every_new = denoise.pixels_of(video[:, :, dropped:])
            factor = self.checkpoint.temporal_factor
            self._projection.learn(*sample(latents, every_new, dropped, factor))
            next_boundary = {"latents": next_motion.cpu().clone()}
        decoded = time.perf_counter()
        return SegmentOutput(
            every_new[: end - first],
            # Cloned once more: a tensor made in inference mode would stay one.
            {name: tensor.clone() for name, tensor in next_boundary.items()},
            watch.forwards,
            seconds={"denoise": denoised - began, "decode": decoded - denoised},
        )

    def _encoded(self, recipe: Request, part: str) -> Tensors:
        from pipelines.infinitetalk import encoders
        from pipelines.infinitetalk.codec import VaeCodec
        from pipelines.skyreels_v2.encoders import encode_prompt

        checkpoint, own = self.checkpoint, self._components
        if part == "image":
            processor = checkpoint.config("image_processor") if self._sees() else {}
            return encoders.encode_picture(
                Path(recipe.image),
                video_size(recipe),
                recipe.frames,
                VaeCodec(own["vae"]),
                own["image_encoder"] if self._sees() else None,
                processor,
            )
        if part == "faces":
            return encoders.encode_faces(recipe, video_size(recipe), checkpoint.spatial_factor)
        if part in ("audio", "audio_2"):
            return encoders.encode_voice(
                Path(getattr(recipe, part)),
                part,
                longest(recipe),
                recipe.fps,
                own["audio_encoder"],
                checkpoint.normalises_voice,
            )
        embeds = encode_prompt(
            own["tokenizer"], own["text_encoder"], getattr(recipe, part), checkpoint.text_len
        )
        return {"embeds": embeds}

    def _sees(self) -> bool:
        return self._uses("image_encoder")

    def _uses(self, component: str) -> bool:
        """Whether a component is loaded at all: a processor is only its config, and a transformer
        may take no CLIP tokens."""
        if component == "image_encoder":
            return self.checkpoint.sees_picture
        return component != "image_processor"

    def _motion(
        self, recipe: Request, inputs: Tensors, i: int, boundary: Tensors | None
    ) -> torch.Tensor:
        """Latent frames that the segment starts from, `[1, C, n, h, w]`."""
        if i == 0:
            return inputs["image_latents"]
        if not boundary or "latents" not in boundary:
            raise BadInput("boundary", None, f"Segment {i} needs that of segment {i - 1}.")
        given, like = boundary["latents"], inputs["image_latents"].shape
        count = latent_frames(recipe.overlap, self.checkpoint.temporal_factor)
        expected = (*like[:2], count, *like[3:])
        if tuple(given.shape) != expected:
            raise BadInput("boundary", tuple(given.shape), f"This recipe needs {expected}.")
        return given

    def _condition(self, recipe: Request, inputs: Tensors, i: int) -> Condition:
        import torch

        from pipelines.infinitetalk.denoise import Condition
        from pipelines.infinitetalk.windows import audio_windows

        voices = [inputs[f"{n}_embeds"] for n in ("audio", "audio_2") if f"{n}_embeds" in inputs]
        # Only the windows of this segment: the features of the whole voice stay where they are.
        heard = [audio_windows(one[None], i, recipe.frames, recipe.overlap) for one in voices]
        clip, masks = inputs.get("image_clip"), inputs.get("faces_masks")
        return Condition(
            inputs["prompt_embeds"][None].to(self.device),
            inputs["negative_prompt_embeds"][None].to(self.device),
            None if clip is None else clip.to(self.device),
            inputs["image_condition"].to(self.device),
            torch.cat(heard)[None].to(self.device),
            None if masks is None else masks.float().to(self.device),
        )

    def _watch(self, recipe: Request, on_step: OnStep | None) -> Watch:
        from pipelines.one_piece.watch import Watch

        return Watch(
            on_step,
            recipe.steps,
            lambda before, after, i: after[0, :, after.shape[2] // 2],
            lambda latents: self._projection.picture(latents),
        )

    @cached_property
    def _projection(self) -> Projection:
        """Given by the codec's config as `latents_rgb`, or learned from what is decoded."""
        import numpy as np

        from pipelines.preview import Projection

        matrix = np.asarray(self.checkpoint.config("vae").get("latents_rgb") or [])
        return Projection(matrix if matrix.any() else None)

    def _free(self, names: Iterable[str]) -> None:
        from pipelines.components import free_memory

        for name in names:
            self._components.pop(name, None)
            self._signatures.pop(name, None)
        free_memory(self.device)

    def _load(self, names: Iterable[str]) -> None:
        """Loads what is not in memory, or is there from files that have changed since."""
        from pipelines.infinitetalk.components import load

        signatures = {name: self.checkpoint.signature(name) for name in names}
        stale = [name for name in signatures if self._signatures.get(name) != signatures[name]]
        self.checkpoint.check(stale)
        for name in stale:
            self._components.pop(name, None)
            dtype = self.dtype if name in ("transformer", "text_encoder") else SMALL_DTYPE
            self._components[name] = load(self.checkpoint, name, dtype, self.device)
            self._signatures[name] = signatures[name]
