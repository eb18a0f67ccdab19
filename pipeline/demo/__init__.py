"""`redactory demo`: everything once, on this machine, with nothing left running."""
