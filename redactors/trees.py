"""Walks the tree of a pattern."""

from collections.abc import Iterator

from redactors.pattern import Anchor, Bytes, Choice, Node, Repeat, Sequence


def items_of(tree: Node) -> tuple[Node, ...]:
    """The items of a sequence; any other node is the only one."""
    return tree.items if isinstance(tree, Sequence) and tree.items else (tree,)


def leaves(node: Node) -> Iterator[Bytes | Anchor]:
    """The bytes and places of a tree, whatever they stand in."""
    match node:
        case Choice(items) | Sequence(items):
            for item in items:
                yield from leaves(item)
        case Repeat(item):
            yield from leaves(item)
        case Bytes() | Anchor():
            yield node
