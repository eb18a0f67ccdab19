"""What an ingest tells of itself while it runs: Prometheus metrics, health, readiness."""
