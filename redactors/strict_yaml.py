"""YAML read strictly, with the line of every node: duplicate keys and odd tags are refused."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from redactors.errors import RulesetError

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Located:
    """A value read from a file, with the place of each of its parts."""

    value: Any
    source: str
    node: yaml.Node

    def at(self, *path: str | int) -> "Located":
        """The part at `path`; steps that are not there are ignored."""
        value, node = self.value, self.node
        for step in path:
            below = _child(node, step)
            if below is None:
                break
            node = below
            value = value[step]
        return Located(value, self.source, node)

    def line(self) -> int:
        """1-based."""
        return int(self.node.start_mark.line) + 1

    def error(self, reason: str, *path: str | int) -> RulesetError:
        """An error that names the file and the line of the part at `path`."""
        return RulesetError(reason, source=self.source, line=self.at(*path).line())


def read_yaml(path: Path) -> Located:
    """The one mapping in the file at `path`; raises RulesetError with file and line."""
    source = str(path)
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise RulesetError(f"cannot be read: {error.strerror}", source=source) from None
    except UnicodeDecodeError:
        raise RulesetError("is not UTF-8", source=source) from None
    except RecursionError:
        raise RulesetError("is nested too deep", source=source) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise RulesetError(f"not YAML: {error.problem}", source=source, line=line) from None
    if not isinstance(node, yaml.MappingNode):
        raise RulesetError("must be a mapping with `rules`", source=source, line=1)
    return Located(_plain(node, source, set()), source, node)


def _child(node: yaml.Node, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        below: yaml.Node = node.value[step]
        return below
    return None


def _plain(node: yaml.Node, source: str, seen: set[int]) -> Any:
    """JSON-like data of `node`; scalars by YAML's core schema, dates as text.

    An alias is refused: a few lines of them stand for gigabytes.
    """
    if id(node) in seen:
        line = int(node.start_mark.line) + 1
        raise RulesetError("an alias stands for this; write it out", source=source, line=line)
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        plain: dict[str, Any] = {}
        for key, value in node.value:
            line = int(key.start_mark.line) + 1
            if not isinstance(key, yaml.ScalarNode):
                raise RulesetError("a key must be text", source=source, line=line)
            if key.value in plain:
                raise RulesetError(f"key {key.value!r} stands twice", source=source, line=line)
            plain[key.value] = _plain(value, source, seen)
        return plain
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, source, seen) for item in node.value]
    return _scalar(node, source)


def _scalar(node: yaml.Node, source: str) -> Any:
    text = str(node.value)
    match node.tag.rpartition(":")[2]:
        case "str" | "timestamp":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int" if text.isdigit():
            return int(text)
        case "float":
            return float(text)
    line = int(node.start_mark.line) + 1
    raise RulesetError(f"write {text!r} in quotes", source=source, line=line)
