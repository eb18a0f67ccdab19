"""One worker process: `python -m pipeline.worker`.

Its `IngestConfig` comes as JSON on the first line of stdin; what it does goes out as JSON lines on
stdout.  Later lines name the ruleset to go on under.  Ends cleanly, with everything open
committed, on SIGINT or SIGTERM, when its share is caught up, or when its stdin closes: its
supervisor is gone then.
"""

import gc
import json
import math
import sys
import threading
from dataclasses import replace

import apache_beam as beam
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, StandardOptions

from pipeline.bounded import is_bounded, run_bounded
from pipeline.config import IngestConfig
from pipeline.ingest import IngestRuns
from pipeline.stopping import STOP, stop_on_signals
from pipeline.switching import SWITCH
from pipeline.telling import tell, tell_commit, tell_error

DEFAULT_OPTIONS = ("--runner=FnApiRunner",)

SELDOM = 50_000
"""New objects between two searches for cycles."""

PRISM = "apache_beam.runners.portability.prism_runner.PrismRunner"

PRISM_EXPERIMENTS = ("disable_prism_server_singleton", "prism_disable_sdf_split")
"""One Prism a job, and a source that is not split: its one split is all there is."""


def main() -> int:
    """Runs pipelines until there is no more to do; returns the exit code."""
    config = IngestConfig.from_json(sys.stdin.readline())
    stop_on_signals()
    threading.Thread(target=_listen_to_supervisor, daemon=True).start()
    collect_seldom()
    try:
        run_once(config)
        while not config.until_caught_up and not STOP.is_set():
            run_once(replace(config, ruleset=SWITCH.ruleset or config.ruleset))
    except Exception as error:
        tell_error(error)
        return 3
    tell("done")
    return 0


def collect_seldom() -> None:
    """Spares the search for cycles what has none: half a million objects of the libraries, here
    for good, and the rows of a slice, made by the thousand."""
    gc.freeze()
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])


def run_once(config: IngestConfig) -> None:
    """Runs one pipeline, from the log's position to the end of its epoch."""
    options = PipelineOptions(list(config.beam_options or DEFAULT_OPTIONS))
    if is_bounded(options):
        run_bounded(config, options)
        return
    if options.view_as(StandardOptions).runner in ("PrismRunner", PRISM):
        for experiment in PRISM_EXPERIMENTS:
            options.view_as(DebugOptions).add_experiment(experiment)
        # A Prism ends with this process only: one job for all of it, and no epochs.
        config = replace(config, epoch_s=math.inf)
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | IngestRuns(config) | "Tell" >> beam.Map(tell_commit)


def _listen_to_supervisor() -> None:
    while line := sys.stdin.readline():
        SWITCH.ruleset = json.loads(line)["ruleset"]
    STOP.set()


if __name__ == "__main__":
    sys.exit(main())
