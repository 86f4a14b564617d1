"""Whole runs, segment after segment, equal those of the published code on its noise.

The VAE, CLIP and text encoder are the linear maps that the published code was run with.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import avg_pool2d

from pipelines.infinitetalk.denoise import Condition, Denoiser, denoise, finish, timesteps_of
from pipelines.infinitetalk.guidance import Guidance
from pipelines.infinitetalk.persons import boxed, halves, person_masks
from pipelines.infinitetalk.windows import audio_windows, chain_of
from tests.fixtures.infinitetalk_golden import cases, close, golden, transformer

F, M = 9, 5
RUNS = {
    "A": {"audio": ("embA",)},
    "B": {"audio": ("embB.0", "embB.1")},
    "C": {"audio": ("embA",)},
    "D": {"audio": ("embD",), "colours": 1.0, "pictures": "in.video_reference_u8"},
    "E": {"audio": ("embA",), "apg": 20.0},
    "G": {"audio": ("embD",), "most": 1},
    "H": {"audio": ("embB.0", "embB.1")},
}


class LinearCodec:
    """Means of 8 x 8 pixels through matrices; four frames of three channels to 16 and back."""

    def __init__(self) -> None:
        self.of = {name: golden("sampler")[f"standin.{name}"] for name in ("E1", "E2", "EB")}
        self.to = {name: golden("sampler")[f"standin.{name}"] for name in ("D1", "D2", "DB")}

    def encode(self, video: torch.Tensor) -> torch.Tensor:
        means = avg_pool2d(video[0].transpose(0, 1), 8)
        groups = means[1:].unflatten(0, (-1, 4)).flatten(1, 2)
        first = torch.einsum("oc,tchw->othw", self.of["E1"], means[:1])
        later = torch.einsum("oc,tchw->othw", self.of["E2"], groups)
        return (torch.cat((first, later), 1) + self.of["EB"].view(-1, 1, 1, 1))[None]

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        z = latents[0].transpose(0, 1)
        first = torch.einsum("oc,tchw->tohw", self.to["D1"], z[:1])
        later = torch.einsum("oc,tchw->tohw", self.to["D2"], z[1:])
        frames = torch.cat((first, later.unflatten(1, (4, 3)).flatten(0, 1)))
        frames = frames + self.to["DB"].view(1, -1, 1, 1)
        pixels = frames.repeat_interleave(8, -1).repeat_interleave(8, -2).clamp(-1, 1)
        return pixels.transpose(0, 1)[None]


def pixels_of(picture: torch.Tensor) -> torch.Tensor:
    return (picture.float() / 255 * 2 - 1).permute(2, 0, 1)[None, :, None]


def clip_of(pixels: torch.Tensor) -> torch.Tensor:
    given = golden("sampler")
    mean = pixels.mean(dim=(0, 2, 3, 4))
    return (given["standin.clip_base"] + mean @ given["standin.clip_rgb"])[None]


@pytest.mark.parametrize("run", RUNS)
def test_a_run_equals_the_published_one(run):
    given, case, settings = golden("sampler"), cases()["sampler_runs"][run], RUNS[run]
    codec, persons = LinearCodec(), len(settings["audio"])
    embeds = [given[f"in.{name}"] for name in settings["audio"]]
    assert len({len(one) for one in embeds}) == 1
    embeds = torch.stack(embeds)
    chain = chain_of(embeds.shape[1], settings.get("most", 1000), F, M)
    assert chain.segments == case["segments"] and chain.total == case["frames_out"]

    masks = None
    if persons == 2:
        masks = person_masks(boxed(halves((64, 96)), (64, 96)), (64, 96), 8).float()
        close(masks, given[f"run{run}.ref_target_masks"], atol=0)
    timesteps = timesteps_of(4, 7.0)
    close(timesteps[:-1], given[f"run{run}.timesteps"], atol=1e-3, rtol=1e-6)

    pictures = given.get(settings.get("pictures", ""), given["in.reference_u8"][None])
    first_picture = pixels_of(pictures[0])
    motion, frames, forwards = codec.encode(first_picture), [], 0
    for i in range(chain.segments):
        picture = pixels_of(pictures[min(i, len(pictures) - 1)])
        gray = torch.zeros(1, 3, F - 1, 64, 96)
        condition = Condition(
            given["in.context"][None],
            given["in.context_null"][None],
            clip_of(picture),
            codec.encode(torch.cat((picture, gray), 2)),
            audio_windows(embeds, i, F, M)[None],
            masks,
        )
        named = f"run{run}.seg{i}"
        if f"{named}.audio_window" in given:
            close(condition.audio[0], given[f"{named}.audio_window"], atol=0)
        close(motion[0], given[f"{named}.motion_latent"], atol=2e-3, rtol=1e-3)
        guidance = Guidance(case["text_scale"], case["audio_scale"], settings.get("apg", 0.0))
        velocity = Denoiser(transformer(), condition, guidance)
        noise = given[f"{named}.noise"][None]
        latents = denoise(velocity, noise, motion, timesteps, lambda *_: None)
        close(latents[0], given[f"{named}.final_latent"], atol=2e-3, rtol=1e-3)
        forwards += velocity.forwards
        video, motion = finish(codec, latents, first_picture, M, settings.get("colours", 0.0))
        begin, end = chain.new_frames(i)
        frames.append(video[0, :, M if i else 0 :][:, : end - begin])
    video = torch.cat(frames, 1)
    assert forwards == case["forwards"]
    pooled = avg_pool2d(video, 8)
    close(pooled, given[f"run{run}.video_pool8"], atol=5e-4)


def test_the_given_latents_stay_as_they_are_to_the_bit():
    motion = torch.randn(1, 4, 2, 3, 3)
    seen = []

    def velocity(latents, timestep):
        seen.append(latents[:, :, :2].clone())
        return torch.randn_like(latents)

    out = denoise(velocity, torch.randn(1, 4, 5, 3, 3), motion, timesteps_of(3, 7.0), lambda *_: 0)
    assert all(torch.equal(one, motion) for one in (*seen, out[:, :, :2]))
