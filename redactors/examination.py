"""Examines a JSON document or a text, layer by layer, and says what to change in it.

Every text is looked at until a look finds nothing more: what comes out is what a second redaction
would leave alone, whatever the rules are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from redactors.actions import opaque, treat, whole
from redactors.assignments import assignments
from redactors.changes import (
    Change,
    Edited,
    Looking,
    declared,
    deeper,
    in_document,
    in_json,
    reachable,
    renamed,
)
from redactors.compiled import (
    BASE64,
    FLAG,
    HIDDEN,
    MEMORY,
    NAMED,
    OBJECT,
    PERCENT,
    Compiled,
    Treatment,
)
from redactors.edits import Edit, Mark, apply, compose, settled
from redactors.encoded import (
    Run,
    encoded,
    inflated,
    is_compressed,
    is_file,
    is_sealed,
    readable,
    runs,
    strings,
)
from redactors.errors import Unexaminable
from redactors.finder import Cell, Finder, Found, in_text
from redactors.layers import views
from redactors.masks import Masks
from redactors.memory import RunMemory
from redactors.overlaps import Finding, resolve
from redactors.ruleset import FieldRule
from redactors.walk import Leaf, NotJson, pointer, walk, walk_from

MAX_DEPTH: Final = 16
"""Layers inside layers: JSON text in a string, base64 in that, and so on."""

MAX_LOOKS: Final = 8
"""How often a text is looked at again after masking, before it is masked whole."""

MAX_INFLATED: Final = 256 * 1024 * 1024
"""Code points in the compressed data of one payload; of more it is refused."""

_MAX_KNOWN: Final = 16  # documents inside texts
_CELL: Final = tuple.__new__  # a cell made without a call of Python's: every text is one
_OPENERS: Final = "{[ \t\r\n"  # what a text that is a document starts with


class Examination:
    """One look through one payload under a compiled ruleset; what fields show goes to `memory`."""

    def __init__(self, compiled: Compiled, masks: Masks, memory: RunMemory) -> None:
        self._compiled, self._masks, self._memory = compiled, masks, memory
        self._finder = Finder(compiled, masks, memory)
        # Documents inside texts that need no edits, with the memory's version then.
        self._examined: dict[str, int] = {}
        self._inflated = 0

    def document(self, raw: str) -> tuple[list[Edit], list[Change]]:
        """The edits of the JSON text `raw`, and what they change; in order of place."""
        try:
            leaves = walk(raw, self._compiled.roles)
        except NotJson:
            raise Unexaminable("not-json") from None
        known = self._memory.version
        edited, new_keys = self._leaves(leaves, 0)
        if self._memory.repeats(raw, known):  # what a field showed may stand before it, too
            edited, new_keys = self._leaves(leaves, 0)
        if self._compiled.kept:
            edited = [each for each in edited if not self._is_kept(each, new_keys)]
        changes = [declared(each, new_keys) for each in edited]
        return in_document(raw, 0, edited), changes

    def _is_kept(self, edited: Edited, new_keys: Mapping[int, str]) -> bool:
        """Whether a scope keeps the value as it is; what a rule for secrets finds is never kept."""
        if edited.new_key is not None:
            return False
        if any(m.rule in self._compiled.secret_rules for e in edited.edits for m in e.marks):
            return False
        return self._compiled.kept.cover(pointer(edited.leaf, new_keys))

    def text(self, text: str) -> list[Edit]:
        """The edits of a text that stands alone."""
        known, edits = self._memory.version, self._whole_text(text, 0)
        return self._whole_text(text, 0) if self._memory.repeats(text, known) else edits

    def secrets_among(self, texts: Sequence[str]) -> set[int]:
        """The indexes of the texts in which a rule for secrets finds something, by one scan."""
        found = self._finder.find([Cell("", text) for text in texts], only_secrets=True)
        return {index for index, each in found.items() if self._secret_rule(each) is not None}

    def _secret_rule(self, found: Found) -> Treatment | None:
        """The first rule for secrets that finds something."""
        rules = (finding.rule for finding in (*found.findings, *self._assigned(found)))
        return next((r for r in rules if r.kind == "secret" and r.action != "keep"), None)

    def _whole_text(self, text: str, depth: int) -> list[Edit]:
        cell = Cell("", text, "")
        (edits,) = self._look_again([Looking(cell, None, [])], depth)
        if edits:
            (edits,) = self._settle([Looking(cell, None, edits)], depth)
        return settled(edits)

    def _leaves(self, leaves: list[Leaf], depth: int) -> tuple[list[Edited], dict[int, str]]:
        """What to change in the leaves and keys, and the new keys by their tokens."""
        if depth > MAX_DEPTH:
            raise Unexaminable("too-deep")
        edited: list[Edited] = []
        open_leaves: list[Leaf] = []
        looking: list[tuple[Leaf, Looking]] = []
        for leaf in leaves:
            text, rule = leaf.text, leaf.rule
            if not text:
                continue
            edits = None if rule is None else self._by_field(text, leaf.quoted, rule)
            if edits is None and leaf.quoted and text[0] in _OPENERS:
                edits = self._nested(text, depth)
                if edits and rule is not None:
                    looking.append((leaf, Looking(Cell(leaf.name, text), rule, edits)))
                    continue
            if edits is None:
                open_leaves.append(leaf)
            elif edits:
                edited.append(Edited(leaf, settled(edits)))
        new_keys = self._search(leaves, open_leaves, edited, looking, depth)
        if looking:
            every = self._settle([each for _, each in looking], depth)
            edited += [
                Edited(leaf, self._of_leaf(leaf, edits))
                for (leaf, _), edits in zip(looking, every, strict=True)
                if edits
            ]
        edited.sort(key=lambda each: each.token)
        return edited, new_keys

    def _search(
        self,
        leaves: list[Leaf],
        open_leaves: list[Leaf],
        edited: list[Edited],
        looking: list[tuple[Leaf, Looking]],
        depth: int,
    ) -> dict[int, str]:
        """Looks at keys and `open_leaves`; adds to `edited` and `looking`, returns the new keys."""
        if self._compiled.recognizers is None:
            cells = [_CELL(Cell, (leaf.name, leaf.text, None)) for leaf in open_leaves]
        else:
            cells = [Cell(e.name, e.text, self._path(e, depth)) for e in open_leaves]
        keys = list({leaf.key: None for leaf in leaves if leaf.key})
        found = self._finder.find(cells + [_CELL(Cell, ("", key, None)) for key in keys])
        if not found:
            return {}
        of_keys = {key: found[i] for i, key in enumerate(keys, len(cells)) if i in found}
        of_leaves = self._renamed(leaves, of_keys, depth) if of_keys else []
        edited += of_leaves
        new_keys = {each.leaf.place: each.new_key or "" for each in of_leaves}
        seen = sorted(index for index in found if index < len(cells))
        for index in range(len(cells)) if of_leaves else seen:
            leaf, cell = open_leaves[index], cells[index]
            if leaf.key == leaf.name and leaf.place in new_keys:
                cell = cell._replace(name=new_keys[leaf.place])
            edits = self._look(leaf.text, found.get(index), depth)
            if edits or cell.name != leaf.name:  # else a second look could see nothing new
                looking.append((leaf, Looking(cell, leaf.rule, edits)))
        return new_keys

    def _path(self, leaf: Leaf, depth: int) -> str | None:
        """Where prose may stand in `leaf`, as far as a recogniser asks."""
        if not leaf.quoted:
            return None
        return pointer(leaf, {}) if self._compiled.recognizers.need_paths and depth == 0 else ""

    def _by_field(self, text: str, quoted: bool, rule: FieldRule) -> list[Edit] | None:
        """The edit that a value's name asks for; none if it is a mask; None: look at the text."""
        if rule.action == "keep" or self._masks.is_mask(text):
            return []
        if not self._valid(rule, text):
            return None
        self._remember(text, rule)
        return [whole(text, quoted, rule, self._masks)]

    def _remember(self, value: str, rule: FieldRule) -> None:
        if rule.propagate and not self._masks.spans(value):
            self._memory.remember(value, rule)

    def _valid(self, rule: FieldRule, text: str) -> bool:
        valid = self._compiled.valid.get(rule.id)
        return (valid is None or valid(text)) and not self._finder.allowed(text)

    def _of_leaf(self, leaf: Leaf, edits: list[Edit]) -> list[Edit]:
        """`edits` settled; a number with a finding in it is replaced whole, by a string."""
        if leaf.quoted:
            return settled(edits)
        mark = edits[0].marks[0]
        put = self._masks.plain(mark.label)
        return [Edit(0, len(leaf.text), f'"{put}"', (mark._replace(action="mask"),), True, 1)]

    def _nested(self, text: str, depth: int) -> list[Edit] | None:
        """The settled edits of a text that is a JSON document; None if it is none."""
        bare = text.strip(" \t\r\n")
        if len(bare) < 2 or bare[0] + bare[-1] not in ("{}", "[]"):
            return None
        try:
            leaves = walk(text, self._compiled.roles)
        except NotJson:
            return None
        edited, _ = self._leaves(leaves, depth + 1)
        return in_json(in_document(text, 0, edited))

    def _settle(self, every: Sequence[Looking], depth: int) -> list[list[Edit]]:
        """The edits of each text and all that still are found after them; not yet settled."""
        done = [each.edits for each in every]
        unsettled = list(range(len(every)))
        for _ in range(MAX_LOOKS):
            changed = [
                each._replace(cell=each.cell._replace(text=apply(each.cell.text, done[at])))
                for at, each in ((at, every[at]) for at in unsettled)
            ]
            again = self._look_again(changed, depth)
            still = []
            for at, edits in zip(unsettled, again, strict=True):
                if edits:
                    done[at] = compose(done[at], edits)
                    still.append(at)
            if not still:
                return done
            unsettled = still
        for at in unsettled:
            mark = done[at][0].marks[0]
            marks = (Mark(mark.rule, mark.label, "mask"),)
            put = self._masks.plain(mark.label)
            done[at] = [Edit(0, len(every[at].cell.text), put, marks, whole=True)]
        return done

    def _look_again(self, every: Sequence[Looking], depth: int) -> list[list[Edit]]:
        """What a fresh redaction finds in each text."""
        found: list[list[Edit] | None] = []
        for cell, rule, _ in every:
            edits = None if rule is None else self._by_field(cell.text, True, rule)
            found.append(self._nested(cell.text, depth) if edits is None else edits)
        open_cells = [each.cell for each, edits in zip(every, found, strict=True) if edits is None]
        if open_cells:
            seen = self._finder.find(open_cells)
            looks = iter([self._look(c.text, seen.get(i), depth) for i, c in enumerate(open_cells)])
        return [next(looks) if edits is None else edits for edits in found]

    def _look(self, text: str, found: Found | None, depth: int) -> list[Edit]:
        """One look at a text: documents inside it first, then everything that is found in it."""
        if found is None:
            return []
        if OBJECT in found.signals:
            edits = self._embedded(text, found, depth)
            if edits:
                return edits
        findings = self._findings(found)
        if BASE64 in found.signals:
            every = list(runs(text))
            edits = [edit for run in every if (edit := self._in_run(run, depth))]
            if edits:
                return edits
            findings += [finding for run in every for finding in self._in_bytes(run)]
        if HIDDEN in found.signals or PERCENT in found.signals:
            findings += self._seen_through(found)
        if not findings:
            return []
        kept = [(f.start, f.end) for f in findings if f.rule.action == "keep"]
        findings = [f for f in findings if not any(s <= f.start and f.end <= e for s, e in kept)]
        return [
            treat(f.value or text[f.start : f.end], f.start, f.end, f.rule, self._masks)
            for f in resolve(findings, self._masks.spans(text))
        ]

    def _findings(self, found: Found) -> list[Finding]:
        """What the rules, the names in the text and the run's memory find in it."""
        findings = [*found.findings, *self._assigned(found)]
        if MEMORY in found.signals:
            findings += self._memory.find(found.text)
        return findings

    def _seen_through(self, found: Found) -> list[Finding]:
        """What is found in the text as it reads decoded, at the places that hold it."""
        findings = []
        for chain in views(found.text):
            shown = chain[-1].text
            seen = self._finder.find([Cell(found.name, shown)]).get(0)
            for finding in self._findings(seen) if seen is not None else ():
                span = finding.start, finding.end
                value = shown[slice(*span)]
                for view in reversed(chain):
                    span = view.original(*span)
                findings.append(replace(finding, start=span[0], end=span[1], value=value))
        return findings

    def _in_run(self, run: Run, depth: int) -> Edit | None:
        """The edit of a run of base64: masked inside, or whole; None: nothing is found in it."""
        if depth >= MAX_DEPTH:
            raise Unexaminable("too-deep")
        if is_file(run.data):  # what it is decides, not what a data URL calls it
            return opaque(run.text, run.start, run.end, self._masks)
        text = readable(run.data)
        if text is None:
            return self._in_compressed(run, depth)
        if not (edits := self._whole_text(text, depth + 1)):
            return None
        marks = (m._replace(layers=("base64", *m.layers)) for e in edits for m in e.marks)
        put = encoded(run, apply(text, edits).encode("utf-8", "surrogatepass"))
        return Edit(run.start, run.end, put, tuple(marks))

    def _in_compressed(self, run: Run, depth: int) -> Edit | None:
        """The same for a run that is compressed: replaced whole, if anything is found in it."""
        if not is_compressed(run.data) and not is_sealed(run.data):
            return None
        text = inflated(run.data)
        if text is None:
            return opaque(run.text, run.start, run.end, self._masks)
        self._inflated += len(text)
        if self._inflated > MAX_INFLATED:
            raise Unexaminable("too-large")
        edits = self._whole_text(text, depth + 1)
        if not edits:
            return None
        rule, label = edits[0].marks[0][:2]
        return Edit(run.start, run.end, self._masks.plain(label), (Mark(rule, label, "mask"),))

    def _in_bytes(self, run: Run) -> Iterator[Finding]:
        """The run, if rules for secrets find anything in the text among its bytes."""
        text = strings(run) if readable(run.data) is None else ""
        found = self._finder.find([Cell("", text)], only_secrets=True).get(0) if text else None
        rule = None if found is None else self._secret_rule(found)
        if rule is not None:
            yield Finding(run.start, run.end, rule)

    def _assigned(self, found: Found) -> Iterator[Finding]:
        ends = sorted([*found.signals.get(NAMED, ()), *found.signals.get(FLAG, ())])
        if not ends:
            return
        for start, end, rule in assignments(found.data, ends, self._compiled.roles, self._valid):
            span = in_text(found, start, end)
            if span is not None:
                self._remember(found.text[slice(*span)], rule)
                yield Finding(*span, rule)

    def _embedded(self, text: str, found: Found, depth: int) -> list[Edit]:
        """The edits of JSON objects that stand in prose."""
        edits: list[Edit] = []
        reached = 0
        for end in sorted(found.signals[OBJECT]):
            span = in_text(found, 0, end)
            start = -1 if span is None else text.rfind("{", 0, span[1])
            if start < reached:
                continue
            known = next((e for e in self._examined if text.startswith(e, start)), None)
            if known is not None and self._examined[known] == self._memory.version:
                reached = start + len(known)
                continue
            try:
                leaves, reached = walk_from(text, start, self._compiled.roles)
            except NotJson as error:
                reached = max(error.position, start + 1)
                continue
            edited, _ = self._leaves(leaves, depth + 1)
            of_document = in_document(text, start, edited)
            edits += deeper(of_document)
            if len(self._examined) < _MAX_KNOWN:
                inside = [e._replace(start=e.start - start, end=e.end - start) for e in of_document]
                self._examined[apply(text[start:reached], inside)] = self._memory.version
        return edits

    def _renamed(
        self, leaves: Sequence[Leaf], found: Mapping[str, Found], depth: int
    ) -> list[Edited]:
        """The keys to change, where they stand."""
        edits_of: dict[str, list[Edit]] = {}
        for key, of_key in found.items():
            edits = self._look(key, of_key, depth)
            if edits:
                edits = self._settle([Looking(Cell("", key), None, edits)], depth)[0]
                edits_of[key] = [reachable(edit, self._masks) for edit in edits]
        return renamed(leaves, edits_of) if edits_of else []
