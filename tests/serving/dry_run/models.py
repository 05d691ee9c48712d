"""Small models as GGUF files: the real families' keys and tensors, few layers, data that is a hole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.inspector.readers.files import GgufWriter

VOCAB = 1024


class _Model:
    """Keys under the architecture's name, and tensors by their row-major shapes."""

    def __init__(self, arch: str, **keys: Any) -> None:
        self.writer = GgufWriter()
        self.writer.key("general.architecture", "string", arch)
        self.writer.key("tokenizer.ggml.model", "string", "no_vocab")
        for name, value in {"vocab_size": VOCAB, **keys}.items():
            self.writer.key(f"{arch}.{name.replace('__', '.')}", _kind(value), value)

    def add(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            self.writer.tensor(f"{name}.weight", "F32" if len(shape) == 1 else "Q8_0", shape)


def _kind(value: Any) -> str:
    return {bool: "bool", int: "uint32", float: "float32", str: "string"}[type(value)]


def _attention(prefix: str, hidden: int, heads: int, kv: int, dim: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}.attn_norm": (hidden,),
        f"{prefix}.attn_q": (heads * dim, hidden),
        f"{prefix}.attn_k": (kv * dim, hidden),
        f"{prefix}.attn_v": (kv * dim, hidden),
        f"{prefix}.attn_output": (hidden, heads * dim),
    }


def _dense(prefix: str, hidden: int, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}.ffn_norm": (hidden,),
        f"{prefix}.ffn_gate": (inner, hidden),
        f"{prefix}.ffn_up": (inner, hidden),
        f"{prefix}.ffn_down": (hidden, inner),
    }


def _dims(hidden: int, layers: int, inner: int, heads: int, kv: int, dim: int) -> dict[str, Any]:
    return {
        "context_length": 32768, "embedding_length": hidden, "block_count": layers,
        "feed_forward_length": inner, "attention__head_count": heads, "attention__head_count_kv": kv,
        "attention__key_length": dim, "attention__value_length": dim,
        "attention__layer_norm_rms_epsilon": 1e-6, "rope__freq_base": 1e6,
    }  # fmt: skip


def llama(path: Path) -> Path:
    """Grouped queries, full attention."""
    model = _Model("llama", **_dims(512, 2, 1536, 8, 2, 64), rope__dimension_count=64)
    model.add({"token_embd": (VOCAB, 512), "output_norm": (512,), "output": (VOCAB, 512)})
    for layer in range(2):
        model.add(_attention(f"blk.{layer}", 512, 8, 2, 64) | _dense(f"blk.{layer}", 512, 1536))
    return model.writer.write(path)


def gemma3(path: Path) -> Path:
    """Five windows of 512 to one full layer, tied head."""
    model = _Model("gemma3", **_dims(640, 6, 2048, 4, 1, 256), attention__sliding_window=512)
    model.add({"token_embd": (VOCAB, 640), "output_norm": (640,)})
    for layer in range(6):
        prefix = f"blk.{layer}"
        model.add(_attention(prefix, 640, 4, 1, 256) | _dense(prefix, 640, 2048))
        model.add({f"{prefix}.attn_q_norm": (256,), f"{prefix}.attn_k_norm": (256,)})
        model.add({f"{prefix}.post_attention_norm": (640,), f"{prefix}.post_ffw_norm": (640,)})
    return model.writer.write(path)


def qwen3moe(path: Path) -> Path:
    """Experts: 16 of width 256, 4 used."""
    keys = _dims(512, 2, 1536, 8, 2, 128)
    model = _Model("qwen3moe", **keys, expert_count=16, expert_used_count=4, expert_feed_forward_length=256)
    model.add({"token_embd": (VOCAB, 512), "output_norm": (512,), "output": (VOCAB, 512)})
    for layer in range(2):
        prefix = f"blk.{layer}"
        model.add(_attention(prefix, 512, 8, 2, 128))
        model.add(
            {f"{prefix}.attn_q_norm": (128,), f"{prefix}.attn_k_norm": (128,), f"{prefix}.ffn_norm": (512,)}
        )
        model.add({f"{prefix}.ffn_gate_inp": (16, 512), f"{prefix}.ffn_gate_exps": (16, 256, 512)})
        model.add({f"{prefix}.ffn_up_exps": (16, 256, 512), f"{prefix}.ffn_down_exps": (16, 512, 256)})
    return model.writer.write(path)


def mamba(path: Path) -> Path:
    """States only."""
    model = _Model(
        "mamba", context_length=32768, embedding_length=512, block_count=2, feed_forward_length=0,
        attention__head_count=0, ssm__conv_kernel=4, ssm__inner_size=1024, ssm__state_size=16,
        ssm__time_step_rank=32, attention__layer_norm_rms_epsilon=1e-5,
    )  # fmt: skip
    model.add({"token_embd": (VOCAB, 512), "output_norm": (512,)})
    for layer in range(2):
        prefix = f"blk.{layer}"
        model.add(
            {f"{prefix}.attn_norm": (512,), f"{prefix}.ssm_in": (2048, 512), f"{prefix}.ssm_x": (64, 1024)}
        )
        model.add({f"{prefix}.ssm_dt": (1024, 32), f"{prefix}.ssm_out": (512, 1024)})
        vectors = {"ssm_conv1d.bias": (1024,), "ssm_dt.bias": (1024,), "ssm_d": (1024,)}
        tables = {"ssm_conv1d.weight": (1024, 4), "ssm_a": (1024, 16)}
        for name, shape in {**vectors, **tables}.items():
            model.writer.tensor(f"{prefix}.{name}", "F32", shape)
    return model.writer.write(path)


def deepseek2(path: Path) -> Path:
    """Latent attention: one row of 128 + 64 values per token for keys and values.

    Three layers: of two, the last computes few rows, and the allocator overlays more.
    """
    latent, rotary, heads = 128, 64, 4
    keys = _dims(512, 3, 1024, heads, 1, latent + rotary) | {"attention__value_length": latent}
    model = _Model(
        "deepseek2", **keys, rope__dimension_count=rotary, attention__kv_lora_rank=latent,
        attention__q_lora_rank=256,
        attention__key_length_mla=128 + rotary, attention__value_length_mla=128, leading_dense_block_count=3,
        expert_count=0, expert_used_count=0, expert_feed_forward_length=256, expert_shared_count=1,
        expert_weights_scale=1.0,
    )  # fmt: skip
    model.add({"token_embd": (VOCAB, 512), "output_norm": (512,), "output": (VOCAB, 512)})
    for layer in range(3):
        prefix = f"blk.{layer}"
        model.add({f"{prefix}.attn_norm": (512,), f"{prefix}.attn_q_a": (256, 512)})
        model.add({f"{prefix}.attn_q_a_norm": (256,), f"{prefix}.attn_q_b": (heads * (128 + rotary), 256)})
        model.add({f"{prefix}.attn_kv_a_mqa": (latent + rotary, 512), f"{prefix}.attn_kv_a_norm": (latent,)})
        model.add({f"{prefix}.attn_k_b": (heads, latent, 128), f"{prefix}.attn_v_b": (heads, 128, latent)})
        model.add({f"{prefix}.attn_output": (512, heads * 128)} | _dense(prefix, 512, 1024))
    return model.writer.write(path)


def _plain(model: _Model, name: str, shape: tuple[int, ...], *, bias: bool = True) -> None:
    model.add({name: shape})
    if bias:
        model.writer.tensor(f"{name}.bias", "F32", (shape[0],))


def _without_gate(
    path: Path, arch: str, inner: int, *, biases: bool, norms: tuple[str, ...], kv: int
) -> Path:
    """Two matrices without a gate, one fused projection of 8 heads of 64."""
    keys = _dims(512, 3, inner, 8, kv, 64) | {"attention__layer_norm_epsilon": 1e-5}
    model = _Model(arch, **keys, rope__dimension_count=64)
    model.add({"token_embd": (VOCAB, 512)})
    _plain(model, "output_norm", (512,))
    _plain(model, "output", (VOCAB, 512), bias=arch == "phi2")
    if arch == "gpt2":
        model.writer.tensor("position_embd.weight", "F32", (32768, 512))
    for layer in range(3):
        prefix = f"blk.{layer}"
        for norm in norms:
            _plain(model, f"{prefix}.{norm}", (512,))
        _plain(model, f"{prefix}.attn_qkv", (512 + 128 * kv, 512), bias=biases)
        _plain(model, f"{prefix}.attn_output", (512, 512), bias=biases)
        _plain(model, f"{prefix}.ffn_up", (inner, 512), bias=biases)
        _plain(model, f"{prefix}.ffn_down", (512, inner), bias=biases)
    return model.writer.write(path)


def gpt2(path: Path, inner: int = 2048) -> Path:
    """Attention, then the feed-forward; biases everywhere."""
    return _without_gate(path, "gpt2", inner, biases=True, norms=("attn_norm", "ffn_norm"), kv=8)


def phi2(path: Path, inner: int = 2048) -> Path:
    """Both parts beside each other, with biases."""
    return _without_gate(path, "phi2", inner, biases=True, norms=("attn_norm",), kv=8)


def falcon(path: Path, inner: int = 2048) -> Path:
    """Both parts beside each other, without biases; one KV head."""
    return _without_gate(path, "falcon", inner, biases=False, norms=("attn_norm",), kv=1)


def falcon_40b(path: Path, inner: int = 2048) -> Path:
    """The same with a norm for each part, and two KV heads."""
    return _without_gate(path, "falcon", inner, biases=False, norms=("attn_norm", "attn_norm_2"), kv=2)


WITHOUT_GATE = {"gpt2": gpt2, "phi2": phi2, "falcon": falcon, "falcon-40b": falcon_40b}
FAMILIES = {"llama": llama, "gemma3": gemma3, "qwen3moe": qwen3moe, "mamba": mamba, "deepseek2": deepseek2}
