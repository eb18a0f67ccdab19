"""What a runner is handed: masked slices and commits, no main module, no key material."""

import base64
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.bounded import IngestPartition, PartitionRange
from pipeline.coders import CommitCoder, MaskedSliceCoder, WrittenSliceCoder
from pipeline.config import IngestConfig
from pipeline.ingest import IngestRuns
from pipeline.lake.entries import Commit
from pipeline.telling import tell_commit
from redactors import load_or_create_keys

OURS = (MaskedSliceCoder, WrittenSliceCoder, CommitCoder)


@pytest.fixture
def config(tmp_path: Path) -> IngestConfig:
    client = tmp_path / "client.properties"
    client.write_text("client.id=the-client-of-this-test\n")
    return IngestConfig(
        "broker:9092", "runs", "lake", keys=str(tmp_path / "keys"), client_config=str(client)
    )


def _pipeline(config: IngestConfig) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    _ = pipeline | IngestRuns(config) | "Tell" >> beam.Map(tell_commit)
    return pipeline


def test_every_collection_after_the_reader_carries_masked_slices_or_commits(
    config: IngestConfig,
) -> None:
    proto, context = _pipeline(config).to_runner_api(return_context=True)
    seen = set()
    for collection in proto.components.pcollections.values():
        coder = context.coders.get_by_id(collection.coder_id)
        if "Create/" in collection.unique_name:
            continue  # the description of the source, before anything is read
        assert isinstance(coder, OURS), collection.unique_name
        seen.add(type(coder))
    assert seen == set(OURS)


def test_a_bounded_run_hands_on_nothing_but_receipts(config: IngestConfig) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    _ = (
        pipeline
        | beam.Create([PartitionRange(0, 1, 5)])
        | "Ingest" >> beam.ParDo(IngestPartition(config)).with_output_types(Commit)
    )
    proto, context = pipeline.to_runner_api(return_context=True)
    coders = {
        collection.unique_name: context.coders.get_by_id(collection.coder_id)
        for collection in proto.components.pcollections.values()
        if "Create/" not in collection.unique_name
    }
    assert [type(coder) for coder in coders.values()] == [CommitCoder]


def test_the_pipeline_names_modules_and_carries_neither_main_nor_keys(config: IngestConfig) -> None:
    keys, _ = load_or_create_keys(Path(str(config.keys)))
    proto = _pipeline(config).to_runner_api().SerializeToString()
    assert b"pipeline.ingest" in proto
    assert b"__main__" not in proto
    assert b"the-client-of-this-test" not in proto
    for key in keys.keys.values():
        for dress in (key, key.hex().encode(), base64.b64encode(key)):
            assert dress not in proto
