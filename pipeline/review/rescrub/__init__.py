"""Masks what is stored again under other rules; `run.py` has the steps."""
