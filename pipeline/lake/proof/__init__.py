"""Checks that a lake is what its log says; `pipeline.lake.verify` runs them."""
