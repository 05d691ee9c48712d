"""Folding names into modules: what is alike is told once, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from tests.tui.doubles import qwen3_table, table_of

from ropewalk.inspector.tensors import TensorTable
from ropewalk.tui.modules import Module, module_tree

SMALL = ("F32", (2, 3), 24)


def named(*names: str) -> TensorTable:
    """A table of tensors that are all alike but for their names."""
    return table_of([(name, *SMALL) for name in names])


def labels(module: Module) -> list[str]:
    """The children as the tree shows them."""
    return [f"{child.label} x{child.alike}" for child in module.children]


def walk(module: Module) -> Iterator[Module]:
    """The module and all below it."""
    yield module
    for child in module.children:
        yield from walk(child)


def test_repeated_blocks_are_one() -> None:
    table = qwen3_table()
    root = module_tree(table)
    assert labels(root) == ["lm_head x1", "model x1"]
    assert labels(root.children[1]) == ["embed_tokens x1", "layers 0-35 x36", "norm x1"]
    layers = root.children[1].children[1]
    assert labels(layers) == [
        "input_layernorm x1", "mlp x1", "post_attention_layernorm x1", "self_attn x1",
    ]  # fmt: skip
    assert layers.elements == 36 * 192_946_432  # parameters of a block of Qwen3-8B
    assert root.elements == 8_190_735_360
    assert root.nbytes == 16_381_470_720
    assert [table.names[row] for row in layers.rows(table)][:2] == [
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.mlp.down_proj.weight",
    ]


def test_blocks_of_another_form_are_apart_and_experts_fold_inside() -> None:
    names = [f"layers.{layer}.mlp.weight" for layer in range(3)]
    names += [f"layers.{layer}.mlp.experts.{expert}.up" for layer in range(3, 6) for expert in range(8)]
    root = module_tree(named(*names))
    assert labels(root) == ["layers 0-2 x3", "layers 3-5 x3"]
    assert labels(root.children[1]) == ["mlp.experts 0-7 x8"]
    assert root.children[1].elements == 3 * 8 * 6


def test_the_same_names_with_another_dtype_are_not_alike() -> None:
    table = table_of([("l.0.w.weight", "F32", (2,), 8), ("l.1.w.weight", "BF16", (2,), 4)])
    assert labels(module_tree(table)) == ["l 0 x1", "l 1 x1"]


def test_alternating_layers_are_named_by_their_step() -> None:
    names = [f"layers.{n}.{'attn' if n % 2 else 'ssm'}.w" for n in range(6)]
    assert labels(module_tree(named(*names))) == ["layers 0..4:2 x3", "layers 1..5:2 x3"]


def test_chains_without_tensors_are_one_label() -> None:
    root = module_tree(named("a.b.c.d.weight", "a.b.c.e.weight"))
    assert labels(root) == ["a.b.c x1"]
    assert labels(root.children[0]) == ["d x1", "e x1"]


def test_a_tensor_may_be_named_as_a_module() -> None:
    table = named("a", "a.b", "a.b.c")
    root = module_tree(table)
    assert root.elements == 3 * 6
    assert list(root.children[0].rows(table)) == [0, 1, 2]


def test_no_name_is_too_deep() -> None:
    root = module_tree(named(".".join("x" * 5000), "y.weight"))
    assert root.elements == 12


@given(st.lists(st.text("ab01.", min_size=1, max_size=12), unique=True, min_size=1, max_size=30))
def test_every_tensor_is_counted_once(names: list[str]) -> None:
    root = module_tree(named(*names))
    assert root.elements == 6 * len(names)
    for module in walk(root):
        assert module.elements >= sum(child.elements for child in module.children)
