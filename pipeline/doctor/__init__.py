"""`redactory doctor`: whether an ingest would run here, and what to do where it would not."""
