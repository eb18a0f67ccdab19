"""Inputs that broke other redactors, which stand beside the checkout."""

import importlib.util
import os
from pathlib import Path
from typing import Any

SHARED = Path(os.environ.get("REDACTORY_SHARED") or Path(__file__).parents[2] / "shared")
CASES_FILE = SHARED / "cases" / "redaction_cases.py"


def cases() -> list[dict[str, Any]]:
    """The shared cases, where they exist."""
    if not CASES_FILE.exists():
        return []
    spec = importlib.util.spec_from_file_location("redaction_cases", CASES_FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[dict[str, Any]] = module.CASES
    return found
