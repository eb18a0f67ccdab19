"""What every life begins with: all modules imported, the rules compiled under the lives' keys."""

import os

import pipeline.worker
from pipeline.config import IngestConfig
from pipeline.opening import open_rules

open_rules(IngestConfig("", "", "", keys=os.environ["CRASH_KEYS"]))
assert pipeline.worker
