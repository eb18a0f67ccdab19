"""The worked example, by the one command that prints it."""

import json
from typing import Any

import pytest
from running import redactory, succeed

from pipeline.demo.support.example import run_example

Z = 3.3
"""Standard deviations that a rate may lie from its probability: once in a thousand by chance."""

CRASHES = {
    "get_order": {"restart": (1, 1, 4), "resume": (1, 1, 3)},
    "carrier_status": {"restart": (1, 1, 4), "resume": (1, 1, 2)},
}
"""E-mails, distinct texts and model calls, with a key or without."""

SENT = {
    "restart_no_key": (2, 2, 4),
    "resume_no_key": (2, 1, 1),
    "restart_key": (1, 1, 4),
    "resume_key": (1, 1, 1),
}


WHOLE = [pytest.param(seed, marks=pytest.mark.full) for seed in ("", "1", "2", "3")]


@pytest.fixture(scope="module", params=["short", *WHOLE])
def example(request: pytest.FixtureRequest) -> Any:
    """With a quarter of the runs; or all, under the default seed and others, by the command that
    prints them."""
    if request.param == "short":
        return json.loads(json.dumps(run_example(seed=11, runs=50).as_dict()))
    seed = ("--seed", request.param) if request.param else ()
    return json.loads(succeed("demo", "--replay", "--json", *seed))


def test_the_crash_table_is_exact(example: Any) -> None:
    table = {
        death: {
            name: (c["emails"], c["distinct_texts"], c["model_calls"]) for name, c in row.items()
        }
        for death, row in example["crash_table"].items()
    }
    for death, ways in CRASHES.items():
        assert table[death] == {
            f"{way}_{sink}": cell for way, cell in ways.items() for sink in ("no_key", "key")
        }
    assert table["send_email"] == SENT


def test_the_figures_lie_within_their_bounds(example: Any) -> None:
    figures, runs = example["figures"], example["inputs"]["runs"]
    chances = example["inputs"]["probabilities"]
    assert figures["replay_same"] == 1.0
    expected = {
        "live_different": 0.85,
        "wrong_live_v1": chances["wrong_v1"],
        "wrong_live_v2": chances["wrong_v2"],
        "wrong_recorded_v1": chances["wrong_v1"],
        "wrong_replayed_v2": chances["wrong_v2"],
    }
    for name, chance in expected.items():
        assert abs(figures[name] - chance) <= Z * (chance * (1 - chance) / runs) ** 0.5, name


def test_the_first_difference_is_the_models_call_at_step_2(example: Any) -> None:
    first = example["figures"]["first_difference"]
    assert (first["step"], first["boundary"]) == (2, "model")
    assert first["path"].startswith("/message/arguments/")


def test_calls_that_were_never_recorded_give_a_warning(example: Any) -> None:
    assert example["figures"]["miss_rate"] > 0.1
    assert "never recorded" in example["warning"]


def test_only_three_probabilities_and_a_seed_may_be_set() -> None:
    assert redactory("demo", "--replay", "--runs", "3").returncode == 2
    assert redactory("demo", "--replay", "--drift", "2").returncode == 2
