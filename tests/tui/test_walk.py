"""No user error ends the application: every engine with every choice, over checkpoints of several kinds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.made import made
from tests.tui.conftest import PlacedApp, settle
from tests.tui.doubles import CPU, GPU
from textual.pilot import Pilot

from ropewalk import core
from ropewalk.engines import EngineName, planned_engines
from ropewalk.serving.host.probe import Host
from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.state import Opened
from ropewalk.tui.widgets.choice import Choice
from ropewalk.tui.work import Backend
from ropewalk.units import GIB

# Two blocks of Jamba as they are stored: nothing says how large a head is.
_JAMBA = {
    "model.embed_tokens.weight": ("BF16", (64, 32)),
    "model.layers.0.mamba.A_log": ("F32", (64, 16)),
    "model.layers.0.mamba.D": ("F32", (64,)),
    "model.layers.0.mamba.conv1d.weight": ("BF16", (64, 1, 4)),
    "model.layers.0.mamba.dt_proj.weight": ("BF16", (64, 2)),
    "model.layers.0.mamba.in_proj.weight": ("BF16", (128, 32)),
    "model.layers.0.mamba.out_proj.weight": ("BF16", (32, 64)),
    "model.layers.0.mamba.x_proj.weight": ("BF16", (34, 64)),
    **{
        f"model.layers.1.self_attn.{name}_proj.weight": ("BF16", shape)
        for name, shape in (("q", (32, 32)), ("k", (8, 32)), ("v", (8, 32)), ("o", (32, 32)))
    },
}
_LATENT = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "kv_lora_rank": 64,
    "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32, "q_lora_rank": 64, "vocab_size": 1000,
    "intermediate_size": 1024, "moe_intermediate_size": 128, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "max_position_embeddings": 4096,
}  # fmt: skip
CHECKPOINTS: dict[str, tuple[dict[str, Any] | None, Any]] = {
    "Jamba without config.json": (None, _JAMBA),

    "latent attention with experts": (_LATENT, None),
    "an encoder": ({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 64,
                    "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512}, None),
}  # fmt: skip


class PlanningBackend(Backend):
    """The real planner for a checkpoint of code, on a machine that is told."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(state=folder, runs=folder / "runs.sqlite3")
        self._name = name

    def open(self, source: str) -> Opened:
        config, specs = CHECKPOINTS[self._name]
        checkpoint = made(config, specs)
        return Opened(source, checkpoint, core.inspect(checkpoint))

    def devices(self) -> tuple[Any, ...]:
        return (GPU, CPU)

    def _host(self, engine: EngineName) -> Host:
        return Host(None, (GPU, CPU))


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_no_choice_ends_the_application(name: str, tmp_path: Path) -> None:
    """Every engine, and with each other ones of all other choices together."""

    async def walk(pilot: Pilot[None]) -> set[str]:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.ask(memory_bytes=24 * GIB)
        seen: set[str] = set()
        for _ in planned_engines():
            choices = list(app.screen.query(Choice))
            for choice in choices[1:]:
                choice.action_step(-1)
            await settle(pilot)
            choices[0].action_step(1)
            await settle(pilot)
            assert app.desk.request is not None
            seen.add(app.desk.request.engine)
        return seen

    async def play() -> set[str]:
        app = PlacedApp("plan", name, backend=PlanningBackend(tmp_path, name))  # type: ignore[arg-type]
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            return await walk(pilot)

    assert asyncio.run(asyncio.wait_for(play(), 120)) == set(planned_engines())
