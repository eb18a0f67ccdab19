"""The house style, as far as a program can see it."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 400
PACKAGES = ("pipeline", "redactors", "schemas")


@pytest.fixture(scope="session")
def modules(tracked: list[Path]) -> dict[Path, ast.Module]:
    """The syntax trees of all Python files."""
    return {path: ast.parse(path.read_text()) for path in tracked if path.suffix == ".py"}


def test_functions_fit_on_a_screen(modules: dict[Path, ast.Module]) -> None:
    long = [
        f"{path}:{function.lineno} {function.name}"
        for path, module in modules.items()
        for function in _functions(module)
        if (function.end_lineno or 0) - function.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long, _list(long)


def test_files_stay_small(modules: dict[Path, ast.Module]) -> None:
    long = [path for path in modules if len(path.read_text().splitlines()) > MAX_FILE_LINES]
    assert not long, _list(long)


def test_no_error_is_swallowed_whole(modules: dict[Path, ast.Module]) -> None:
    swallowed = [
        f"{path}:{handler.lineno}"
        for path, module in modules.items()
        for handler in ast.walk(module)
        if isinstance(handler, ast.ExceptHandler)
        and (handler.type is None or _name(handler.type) in ("Exception", "BaseException"))
        and all(isinstance(line, ast.Pass | ast.Continue) for line in handler.body)
    ]
    assert not swallowed, _list(swallowed)


def test_whatever_is_public_says_what_it_does(
    checkout: Path, modules: dict[Path, ast.Module]
) -> None:
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path, module in modules.items()
        if path.relative_to(checkout).parts[0] in PACKAGES
        and path.name != "errors.py"  # its docstring draws the whole tree
        for node in _public(module)
        if ast.get_docstring(node) is None
    ]
    assert not silent, _list(silent)


def test_an_init_file_holds_re_exports_only(modules: dict[Path, ast.Module]) -> None:
    with_code = [
        path
        for path, module in modules.items()
        if path.name == "__init__.py"
        for node in module.body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
        and not (isinstance(node, ast.Assign) and _name(node.targets[0]) == "__all__")
    ]
    assert not with_code, _list(with_code)


def test_nothing_is_left_for_later(tracked: list[Path]) -> None:
    words = re.compile(rb"\b(?:TO" rb"DO|FIX" rb"ME|XX" rb"X)\b")
    # The bytes of a picture may spell anything.
    texts = [path for path in tracked if path.suffix != ".png"]
    found = [path for path in texts if words.search(path.read_bytes())]
    assert not found, _list(found)


def test_no_place_of_one_machine_is_written_down(tracked: list[Path]) -> None:
    """Neither folders of a machine nor hosts of a package registry."""
    places = re.compile(
        rb"/(?:ro"
        rb"ot|wo"
        rb"rk)/|/ho"
        rb"me/\w|--(?:extra-)?in"
        rb"dex-url https?:"
        rb"|\bpy"
        rb"pi\.org|\bpytho"
        rb"nhosted\.org|\brepo1?\.mav"
        rb"en|\bregis"
        rb"try\.npmjs"
    )
    found = [path for path in tracked if places.search(path.read_bytes())]
    assert not found, _list(found)


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _public(module: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Functions and classes that other modules may use."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _list(places: Iterable[object]) -> str:
    return "\n".join(["", *map(str, places)])
