"""The schema registry: asked for schemas by whoever reads, given them by whoever writes."""
