"""One worker process: `python -m pipeline.worker`.

Its `IngestConfig` comes as JSON on the first line of stdin; what it does goes out as JSON lines on
stdout.  Ends cleanly, with everything open committed, on SIGINT or SIGTERM, when its share is
caught up, or when its stdin closes: its supervisor is gone then.
"""

import sys
import threading

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.bounded import is_bounded, run_bounded
from pipeline.config import IngestConfig
from pipeline.ingest import IngestRuns
from pipeline.stopping import STOP, stop_on_signals
from pipeline.telling import tell, tell_commit, tell_error

DEFAULT_OPTIONS = ("--runner=FnApiRunner",)


def main() -> int:
    """Runs pipelines until there is no more to do; returns the exit code."""
    config = IngestConfig.from_json(sys.stdin.readline())
    stop_on_signals()
    threading.Thread(target=_stop_with_supervisor, daemon=True).start()
    try:
        run_once(config)
        while not config.until_caught_up and not STOP.is_set():
            run_once(config)
    except Exception as error:
        tell_error(error)
        return 3
    tell("done")
    return 0


def run_once(config: IngestConfig) -> None:
    """Runs one pipeline, from the log's position to the end of its epoch."""
    options = PipelineOptions(list(config.beam_options or DEFAULT_OPTIONS))
    if is_bounded(options):
        run_bounded(config, options)
        return
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | IngestRuns(config) | "Tell" >> beam.Map(tell_commit)


def _stop_with_supervisor() -> None:
    while sys.stdin.readline():
        pass
    STOP.set()


if __name__ == "__main__":
    sys.exit(main())
