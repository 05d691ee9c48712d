"""The names of tensors as a tree of modules in which repeated blocks are folded into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ropewalk.inspector.tensors import TensorTable
from ropewalk.report.folding import number_set

Node = dict[Any, Any]  # component of a name -> Node, or the row of a tensor
_ITSELF = None  # the key of a tensor whose name is also the front of others: no component, not even ""
_DEEPEST = 64  # components of a name; what is deeper stays one component


@dataclass(frozen=True, slots=True)
class Module:
    """A module, or ``alike`` ones of the same tensors told once.

    ``path`` is the name of the first of them, empty for the whole checkpoint; ``elements`` and ``nbytes``
    are those of all of them.
    """

    label: str
    path: str
    alike: int
    elements: int
    nbytes: int
    children: tuple[Module, ...]

    def rows(self, table: TensorTable) -> Sequence[int]:
        """The tensors of the first of these modules, in the table's order."""
        if not self.path:
            return range(len(table))
        start, names = f"{self.path}.", table.names
        return [row for row, name in enumerate(names) if name.startswith(start) or name == self.path]


EVERYTHING = Module("", "", 1, 0, 0, ())  # lists all tensors before the tree is there


def module_tree(table: TensorTable) -> Module:
    """Every tensor of a table below one root without a name."""
    return _Folder(table).root()


@dataclass(frozen=True, slots=True)
class _Form:
    """What two equal modules have in common: a number, and their size."""

    number: int
    elements: int
    nbytes: int


class _Folder:
    """Turns names into modules; nodes with equal names, dtypes and shapes below them have one form."""

    def __init__(self, table: TensorTable) -> None:
        self._table = table
        self._trie = _trie(table.names)
        self._forms: dict[Any, _Form] = {}
        self._known: dict[int, _Form] = {}

    def root(self) -> Module:
        """The module that holds the whole checkpoint."""
        return self._module("", "", self._trie, alike=1)

    def _module(self, label: str, path: str, node: Node, *, alike: int) -> Module:
        form = self._form(node)
        children = tuple(self._children(path, node))
        return Module(label, path, alike, alike * form.elements, alike * form.nbytes, children)

    def _children(self, path: str, node: Node) -> Iterator[Module]:
        for name, below in node.items():
            if isinstance(below, dict):
                yield from self._child(name, f"{path}.{name}" if path else name, below)

    def _child(self, name: str, path: str, node: Node) -> Iterator[Module]:
        """One module; a chain of modules with nothing else in them is one label."""
        while len(node) == 1:
            ((part, below),) = node.items()
            if not isinstance(below, dict):
                break
            name, path, node = f"{name}.{part}", f"{path}.{part}", below
        if len(node) > 1 and all(isinstance(node[key], dict) and key.isdecimal() for key in node):
            yield from self._folded(name, path, node)
        else:
            yield self._module(name, path, node, alike=1)

    def _folded(self, name: str, path: str, node: Node) -> Iterator[Module]:
        """Numbered children, those of one form together."""
        groups: dict[int, list[str]] = {}
        for key in sorted(node, key=int):
            groups.setdefault(self._form(node[key]).number, []).append(key)
        for members in groups.values():
            first, label = members[0], f"{name} {_span([int(key) for key in members])}"
            yield self._module(label, f"{path}.{first}", node[first], alike=len(members))

    def _form(self, node: Node | int) -> _Form:
        if not isinstance(node, dict):
            return self._tensor_form(node)
        known = self._known.get(id(node))
        if known is None:
            below = [(name, self._form(child)) for name, child in node.items()]
            key = frozenset([(name, form.number) for name, form in below])
            known = self._forms.get(key)
            if known is None:
                elements = sum(form.elements for _, form in below)
                known = _Form(len(self._forms), elements, sum(form.nbytes for _, form in below))
                self._forms[key] = known
            self._known[id(node)] = known
        return known

    def _tensor_form(self, row: int) -> _Form:
        table = self._table
        key = (table.dtypes[row], table.shapes[row])
        known = self._forms.get(key)
        if known is None:
            known = _Form(len(self._forms), prod(table.shapes[row]), table.nbytes[row])
            self._forms[key] = known
        return known


def _trie(names: Sequence[str]) -> Node:
    """Names by their components; equal components are one string."""
    root: Node = {}
    known: dict[str, str] = {}
    front, node = "", root
    for row, name in enumerate(names):
        head, dot, last = name.rpartition(".")
        if head + dot != front:
            front = head + dot
            node = _walk(root, head, known) if dot else root
        place = node.get(last)
        if isinstance(place, dict):
            place[_ITSELF] = row
        else:
            node[known.setdefault(last, last)] = row
    return root


def _walk(node: Node, path: str, known: dict[str, str]) -> Node:
    """The node at a path, made where there is none yet."""
    for part in path.split(".", _DEEPEST):
        below = node.get(part)
        if not isinstance(below, dict):
            below = node[known.setdefault(part, part)] = {} if below is None else {_ITSELF: below}
        node = below
    return node


def _span(numbers: list[int]) -> str:
    """``0-35`` for a run, else as folded names write it."""
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return number_set(numbers).strip("[]")
