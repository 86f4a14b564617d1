"""InfiniteTalk as the studio sees it: the seam over the stages of this package.

torch, diffusers and transformers are imported where a stage first needs them, not with this file.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pipelines.base import (
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
from pipelines.infinitetalk.checkpoint import Checkpoint
from pipelines.infinitetalk.defaults import EXTRAS
from pipelines.infinitetalk.endings import most_kept
from pipelines.infinitetalk.guidance import Guidance, branches
from pipelines.infinitetalk.held import HeldTalk
from pipelines.infinitetalk.inputs import encoder_inputs, segment_inputs
from pipelines.infinitetalk.plan import (
    check_recipe,
    latent_frames,
    longest,
    make_plan,
    segment_times,
    strengths,
    video_size,
)
from pipelines.infinitetalk.reference import moves
from pipelines.infinitetalk.windows import chain_of

if TYPE_CHECKING:
    import torch

    from pipelines.infinitetalk.denoise import Condition
    from pipelines.infinitetalk.seen import Seen
    from pipelines.one_piece.watch import Watch


class InfiniteTalk(HeldTalk):
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

    def plan(self, recipe: Request) -> Plan:
        plan = make_plan(recipe, self.checkpoint)
        self.check_held(recipe)
        return plan

    def check_recipe(self, recipe: Request) -> None:
        check_recipe(recipe, self.checkpoint)

    def most_kept(self, kept: Request, asked: Request) -> int:
        return most_kept(kept, asked)

    def forwards_per_step(self, recipe: Request) -> int:
        given = strengths(recipe)
        return len(branches(given.text, given.audio))

    def encoder_inputs(self, recipe: Request) -> dict[str, Fields]:
        return encoder_inputs(recipe, self.checkpoint, self.dtype, self.device, self.tiled(recipe))

    def segment_inputs(self, recipe: Request) -> Fields:
        tiled = self.tiled(recipe)
        fields = segment_inputs(recipe, self.checkpoint, self.dtype, self.device, tiled)
        return {**fields, **self.held_fields(recipe)}

    def encode(self, recipe: Request, parts: Collection[str]) -> dict[str, Tensors]:
        """`embeds` `[tokens, dim]` of the prompts, without padding; of a picture `pixels`,
        `latents`, `condition` and `clip`, of a video `pixels` and `clip` for each segment;
        `embeds` `[T, layers, hidden]` of a voice; `masks` `[3, h, w]` of two persons. Raises
        BadInput for a file that cannot be used."""
        import torch

        from pipelines.threads import steady_threads

        outputs: dict[str, Tensors] = {}
        for part in parts:
            self.load_encoders([part])
            models = [self._components[name] for name in self.components_for(part)]
            models = [model for model in models if hasattr(model, "parameters")]
            with torch.no_grad(), steady_threads(*models):
                outputs[part] = self._encoded(recipe, part)
        return outputs

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

        from pipelines import lora
        from pipelines.infinitetalk import denoise
        from pipelines.infinitetalk.codec import VaeCodec
        from pipelines.infinitetalk.encoders import as_video
        from pipelines.infinitetalk.seen import is_film, seen_in
        from pipelines.preview import sample
        from pipelines.threads import steady_threads

        check_recipe(recipe, self.checkpoint)
        chain = chain_of(
            len(inputs["audio_embeds"]), recipe.segments, recipe.frames, recipe.overlap
        )
        if not 0 <= i < chain.segments:
            raise BadInput("segments", i + 1, f"This voice takes {chain.segments}.")
        self.load_denoiser(recipe)
        if recipe.loras:
            lora.set_strengths(self.denoising_pipe(recipe), recipe.loras)
        given, watch = strengths(recipe), self._watch(recipe, on_step)
        small = steady_threads(self._components["transformer"], self._components["vae"])
        with torch.no_grad(), small:
            codec = VaeCodec(self._components["vae"], self.tiled(recipe))
            started = time.perf_counter()
            # A picture was encoded once; that of a video is for this segment alone.
            encodes = is_film(inputs)
            with self.at_work("vae") if encodes else nullcontext():
                seen = seen_in(inputs, i, recipe.frames, codec)
                self._wait()
            seconds = {"encode": time.perf_counter() - started} if encodes else {}
            motion = seen.latents if i == 0 else self._carried(recipe, seen, i, boundary)
            began = time.perf_counter()
            with self.at_work("transformer") as transformer, watch.inside(transformer):
                noise = torch.randn(seen.condition.shape, generator=generator)
                guidance = Guidance(given.text, given.audio, given.apg)
                latents = denoise.denoise(
                    denoise.Denoiser(
                        transformer, self._condition(recipe, inputs, i, seen), guidance
                    ),
                    noise.to(self.device),
                    motion.to(self.device),
                    denoise.timesteps_of(recipe.steps, recipe.shift),
                    lambda n, clean: watch.on_step_end(None, n - 1, None, {"latents": clean}),
                )
                self._wait()
            denoised = time.perf_counter()
            with self.at_work("vae"):
                video, next_motion = denoise.finish(
                    codec,
                    latents,
                    as_video(seen.first_pixels).to(self.device),
                    recipe.overlap,
                    given.colours,
                )
        first, end = chain.new_frames(i)
        dropped = recipe.overlap if i else 0
        every_new = denoise.pixels_of(video[:, :, dropped:])
        factor = self.checkpoint.temporal_factor
        self._projection.learn(*sample(latents, every_new, dropped, factor))
        decoded = time.perf_counter()
        return SegmentOutput(
            every_new[: end - first],
            {"latents": next_motion.cpu()},
            watch.forwards,
            seconds={**seconds, "denoise": denoised - began, "decode": decoded - denoised},
        )

    def _wait(self) -> None:
        """Until the GPU has done what it was given, so that it is counted where it belongs."""
        import torch

        if self.device.startswith("cuda"):
            torch.cuda.synchronize()

    def _encoded(self, recipe: Request, part: str) -> Tensors:
        from pipelines.infinitetalk import encoders
        from pipelines.infinitetalk.codec import VaeCodec
        from pipelines.skyreels_v2.encoders import encode_prompt

        checkpoint, own = self.checkpoint, self._components
        if part == "image":
            path, size = Path(recipe.image), video_size(recipe)
            eyes = own["image_encoder"] if self.sees else None
            processor = checkpoint.config("image_processor") if self.sees else {}
            if moves(path):
                times = segment_times(recipe)
                return encoders.encode_film(path, size, times, eyes, processor)
            codec = VaeCodec(own["vae"], self.tiled(recipe))
            return encoders.encode_picture(path, size, recipe.frames, codec, eyes, processor)
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

    def _carried(
        self, recipe: Request, seen: Seen, i: int, boundary: Tensors | None
    ) -> torch.Tensor:
        """Latent frames that a later segment starts from, `[1, C, n, h, w]`."""
        if not boundary or "latents" not in boundary:
            raise BadInput("boundary", None, f"Segment {i} needs that of segment {i - 1}.")
        given, like = boundary["latents"], seen.condition.shape
        count = latent_frames(recipe.overlap, self.checkpoint.temporal_factor)
        expected = (*like[:2], count, *like[3:])
        if tuple(given.shape) != expected:
            raise BadInput("boundary", tuple(given.shape), f"This recipe needs {expected}.")
        return given

    def _condition(self, recipe: Request, inputs: Tensors, i: int, seen: Seen) -> Condition:
        import torch

        from pipelines.infinitetalk.denoise import Condition
        from pipelines.infinitetalk.windows import audio_windows

        voices = [inputs[f"{n}_embeds"] for n in ("audio", "audio_2") if f"{n}_embeds" in inputs]
        # Only the windows of this segment: the features of the whole voice stay where they are.
        heard = [audio_windows(one[None], i, recipe.frames, recipe.overlap) for one in voices]
        masks = inputs.get("faces_masks")
        return Condition(
            inputs["prompt_embeds"][None].to(self.device),
            inputs["negative_prompt_embeds"][None].to(self.device),
            None if seen.clip is None else seen.clip.to(self.device),
            seen.condition.to(self.device),
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
