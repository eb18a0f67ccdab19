"""What mkdocs is told beyond mkdocs.yml: pages that are not files here, and links out of `docs/`.

A file of the repository that a page links to becomes part of the site, under `repository/`; nothing
is copied into `docs/`.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from redactors import Ruleset, load_ruleset

ROOT = Path(__file__).parents[1]
OUTSIDE = "repository"
START = ("ARCHITECTURE.md",)
"""Files of the repository that the navigation names."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Adds the rule catalogue and whatever of the repository the pages lead to."""
    catalogue = "\n".join(rule_catalogue(load_ruleset()))
    files.append(File.generated(config, "rule-catalogue.md", content=catalogue))
    pages = [
        f"docs/{file.src_uri}" for file in files.documentation_pages() if not file.generated_by
    ]
    waiting, seen = [*START, *pages], set(pages)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            files.append(File.generated(config, site_uri(path), abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            waiting += sorted(targets(path) - seen)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lets links between `docs/` and the rest of the repository follow the site's folders."""
    here = page.file.src_uri
    path = here.removeprefix(f"{OUTSIDE}/") if here.startswith(OUTSIDE) else f"docs/{here}"

    def moved(link: re.Match[str]) -> str:
        target = site_uri(resolved(path, link[1]))
        return posixpath.relpath(target, posixpath.dirname(here) or ".") + (link[2] or "")

    return _LINK.sub(moved, markdown)


def site_uri(path: str) -> str:
    """Where a file of the repository stands in the site; a folder stands for its README."""
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{OUTSIDE}/{path}"


def resolved(path: str, link: str) -> str:
    """The path in the repository that a link in the file `path` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def targets(path: str) -> set[str]:
    """The files of the repository outside `docs/` that a file links to."""
    found = {resolved(path, link[1]) for link in _LINK.finditer((ROOT / path).read_text())}
    folders = {target for target in found if (ROOT / target / "README.md").is_file()}
    found = (found - folders) | {f"{folder}/README.md" for folder in folders}
    return {each for each in found if not each.startswith("docs/") and (ROOT / each).is_file()}


def rule_catalogue(ruleset: Ruleset) -> Iterator[str]:
    """The lines of a page with every rule of a ruleset; its examples stay where they are."""
    yield "# Rule catalogue"
    yield ""
    yield f"Generated from the ruleset `{ruleset.name}` {ruleset.version} when this site was built;"
    yield "`redactory rules list` prints the same, `redactory rules show ID` one rule in full."
    for kind, title in (("secret", "Secrets"), ("pii", "Personal data")):
        rows = [rule for rule in ruleset.rules if rule.kind == kind]
        yield from _table(f"{title}, by pattern", rows)
        rows = [rule for rule in ruleset.fields if rule.kind == kind]
        yield from _table(f"{title}, by the name of the field", rows)
    if ruleset.recognizers:
        yield from _table("Names in prose", ruleset.recognizers)


def _table(title: str, rules: Any) -> Iterator[str]:
    yield from ("", f"## {title}", "", f"{len(rules)} rules.", "")
    yield from ("| rule | mask | what is done | why |", "| --- | --- | --- | --- |")
    for rule in sorted(rules, key=lambda rule: rule.id):
        reason = rule.reason.replace("|", "\\|").replace("<", "&lt;")
        yield f"| `{rule.id}` | `{rule.label}` | {rule.action} | {reason} |"
