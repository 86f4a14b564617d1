"""How the work and the memory of FlowCache grow with the number of chunks, with random weights.

The model has the shape of SkyReels-V2-1.3B, reduced only in width unless asked for in full. One
chunk after another is denoised in one long segment; what they look like does not matter here.
"""

from __future__ import annotations

from typing import Any

from pipelines.errors import BadInput
from pipelines.flowcache import FlowCacheConfig
from studio import software
from studio.events import Event, OnEvent, Stage, ignore

COUNTS, FULL_COUNTS = (4, 8, 16, 32, 64), (4, 8, 16)
KV_BUDGET = 3
STEPS = 2
BLOCK = 5
SIDE = 8
"""Latent pixels along a side: 16 tokens in a latent frame, 80 in a chunk."""
PROMPT = 32
"""Tokens of the prompt."""
HEADS, HEAD_DIM, LAYERS = 12, 128, 30
NARROW = 2
"""Heads of the reduced model: a sixth of the width."""
FULL_HEIGHT, FULL_WIDTH = 68, 120
"""Latent pixels of 544 x 960."""


def growth(
    counts: tuple[int, ...] | None = None, full: bool = False, on_event: OnEvent = ignore
) -> dict[str, Any]:
    """FLOPs and KV bytes at each number of chunks: plain, exact, and exact with a KV budget.

    `full` takes the whole width and 960 x 544 pixels, on CUDA in bfloat16 where there is one.
    Raises BadInput for fewer than two chunks.
    """
    if counts is None:
        counts = FULL_COUNTS if full else COUNTS
    if not counts or min(counts) < 2:
        raise BadInput("chunks", counts, "Use two chunks or more.")
    import torch

    device = "cuda" if full and torch.cuda.is_available() else "cpu"
    model = _model(HEADS if full else NARROW, device)
    size = (FULL_HEIGHT, FULL_WIDTH) if full else (SIDE, SIDE)
    rows = []
    for n, count in enumerate(counts):
        place = (n, len(counts))
        exact = _measured(model, size, count, FlowCacheConfig("exact"), place, on_event)
        folded = FlowCacheConfig("exact", kv_budget=KV_BUDGET)
        compressed = _measured(model, size, count, folded, place, on_event)
        rows.append(
            {
                "chunks": count,
                "plain_flops": _plain_flops(model, size, count),
                "flops": exact[0],
                "kv_bytes": exact[1],
                "flops_compressed": compressed[0],
                "kv_bytes_compressed": compressed[1],
            }
        )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "shape": f"SkyReels-V2-1.3B, {'full width' if full else f'{NARROW} of {HEADS} heads'}",
        "layers": LAYERS,
        "parameters": parameters,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": device,
        "steps": STEPS,
        "tokens_of_a_chunk": BLOCK * size[0] * size[1] // 4,
        "kv_budget": KV_BUDGET,
        "rows": rows,
        "software": software.versions(),
    }


def _model(heads: int, device: str) -> Any:
    """Random weights from a fixed seed; the caller's random state stays as it was."""
    import torch
    from diffusers import SkyReelsV2Transformer3DModel

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = SkyReelsV2Transformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=heads,
            attention_head_dim=HEAD_DIM,
            in_channels=16,
            out_channels=16,
            text_dim=4096,
            freq_dim=256,
            ffn_dim=8960 * heads // HEADS,
            num_layers=LAYERS,
            inject_sample_info=True,
            num_frame_per_block=BLOCK,
        )
    model = model.eval().requires_grad_(False).to(device)
    return in_half(model) if device == "cuda" else model


def in_half(model: Any) -> Any:
    """bfloat16 as `from_pretrained` has it: what has to stay in float32 does."""
    for name, parameter in model.named_parameters():
        if not any(part in name for part in model._keep_in_fp32_modules):
            parameter.data = parameter.data.bfloat16()
    return model


def _segment(model: Any, chunks: int) -> Any:
    """One chunk after another: each begins when the one before is done."""
    import torch
    from diffusers import UniPCMultistepScheduler

    from pipelines.skyreels_v2.denoise import Condition, Segment
    from pipelines.skyreels_v2.schedule import make_schedule

    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=8.0
    )
    schedule = make_schedule(scheduler, STEPS, chunks * BLOCK, 0, STEPS, BLOCK)
    prompt = torch.zeros(1, PROMPT, 4096, device=model.device, dtype=model.dtype)
    return Segment(model, schedule, Condition(prompt, None, 1.0, 24), 0, BLOCK)


def _measured(
    model: Any,
    size: tuple[int, int],
    chunks: int,
    config: FlowCacheConfig,
    place: tuple[int, int],
    on_event: OnEvent,
) -> tuple[int, int]:
    """(FLOPs, most bytes of keys and values) of one segment."""
    import torch

    from pipelines.flowcache.velocity import flow_velocity
    from pipelines.skyreels_v2.denoise import denoise
    from pipelines.skyreels_v2.schedule import starting_latents
    from pipelines.threads import steady_threads
    from studio.flops import FlopCount

    segment = _segment(model, chunks)
    generator = torch.Generator().manual_seed(0)
    latents = starting_latents((1, 16, chunks * BLOCK, *size), None, generator).to(model.device)
    rows = len(segment.schedule)

    def on_row(row: int, _: Any) -> None:
        on_event(Event(Stage.DENOISE, *place, row, rows))

    with (
        torch.inference_mode(),
        steady_threads(model),
        FlopCount() as count,
        flow_velocity(config, segment) as velocity,
    ):
        denoise(velocity, segment, latents, generator, on_row)
    return count.total, velocity.skip_map.kv_bytes


def _plain_flops(model: Any, size: tuple[int, int], chunks: int) -> int:
    """Of the plain pipeline, which does the same in every row: one row, times the rows. Counted on
    tensors without memory, since a row of 64 chunks would take minutes."""
    import copy

    import torch

    from studio.flops import FlopCount

    segment = _segment(model, chunks)
    frames = chunks * BLOCK
    bare = copy.deepcopy(model).to("meta")
    bare._set_ar_attention(BLOCK)
    with torch.inference_mode(), FlopCount() as count:
        bare(
            hidden_states=torch.empty(1, 16, frames, *size, device="meta", dtype=model.dtype),
            timestep=torch.empty(1, frames, device="meta", dtype=torch.int64),
            encoder_hidden_states=torch.empty(1, PROMPT, 4096, device="meta", dtype=model.dtype),
            enable_diffusion_forcing=True,
            fps=[1],
            return_dict=False,
        )
    return count.total * len(segment.schedule)


def table(told: dict[str, Any]) -> str:
    """The same for reading."""
    lines = [
        f"{told['shape']}, {told['layers']} layers, {told['dtype']} on {told['device']}; "
        f"{told['tokens_of_a_chunk']} tokens a chunk, {told['steps']} steps, "
        f"KV budget {told['kv_budget']} chunks",
        f"{'':>8}{'plain':>12}{'exact':>12}{'compressed':>12}{'exact KV':>12}{'compressed KV':>15}",
        f"{'chunks':>8}{'GFLOPs':>12}{'GFLOPs':>12}{'GFLOPs':>12}{'MB':>12}{'MB':>15}",
    ]
    lines += [
        f"{row['chunks']:>8}{row['plain_flops'] / 1e9:>12.0f}{row['flops'] / 1e9:>12.1f}"
        f"{row['flops_compressed'] / 1e9:>12.1f}{row['kv_bytes'] / 1e6:>12.1f}"
        f"{row['kv_bytes_compressed'] / 1e6:>15.1f}"
        for row in told["rows"]
    ]
    return "\n".join(lines)
