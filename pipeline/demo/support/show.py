"""The example's tables, for a person or as one JSON object."""

import json
import sys

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from pipeline.demo.support.crashes import RECOVERIES
from pipeline.demo.support.example import Example

_ROWS = (
    ("same task, same seed, run again live: a different e-mail", "live_different"),
    ("exact replay: the same answer, nothing called, nothing sent", "replay_same"),
    ("wrong date sent, live, prompt v1", "wrong_live_v1"),
    ("wrong date sent, live, prompt v2", "wrong_live_v2"),
    ("wrong date sent in the recorded runs, prompt v1", "wrong_recorded_v1"),
    ("the same runs replayed with prompt v2", "wrong_replayed_v2"),
    ("misses of the same runs replayed with prompt v3", "miss_rate"),
)


def print_example(example: Example, as_json: bool) -> None:
    """Prints to stdout."""
    if as_json:
        sys.stdout.write(json.dumps(example.as_dict()) + "\n")
        return
    console = Console(highlight=False)
    console.print(_crashes(example))
    console.print(_figures(example))
    first = example.figures["first_difference"]
    if first:
        console.print(
            f"first difference of a run of v1 and its replay with v2: step {first['step']}, the "
            f"{first['boundary']}'s call, {first['path']}"
        )
    if example.warning:
        console.print(f"warning: {example.warning}", style="yellow")
    chances = example.chances
    console.print(
        f"set: drift {chances.drift:.2f}, wrong date v1 {chances.wrong_v1:.2f}, v2 "
        f"{chances.wrong_v2:.2f}, seed {example.seed}, {example.runs} runs each; counted: the rest"
    )


def _crashes(example: Example) -> Table:
    table = Table(
        "dies after",
        *(name.replace("_", " ", 1).replace("_", " ") for name in RECOVERIES),
        title="E-mails that the customer got, model calls of the recovery",
        title_justify="left",
        box=SIMPLE,
    )
    for death, cells in example.crash_table.items():
        table.add_row(death, *(_cell(cells[name]) for name in RECOVERIES))
    return table


def _cell(cell: dict[str, int]) -> str:
    emails, texts = cell["emails"], cell["distinct_texts"]
    kind = "" if emails < 2 else " different" if texts > 1 else " of the same text"
    return f"{emails}{kind}, {cell['model_calls']}"


def _figures(example: Example) -> Table:
    table = Table("measured", "rate", "± 95 %", box=SIMPLE)
    for title, name in _ROWS:
        rate = example.figures[name]
        table.add_row(title, f"{rate:.1%}", f"{example.bound(rate):.1%}")
    return table
