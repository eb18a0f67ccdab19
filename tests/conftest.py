"""Its being here puts this folder on the path: every test finds `lake_samples`."""
