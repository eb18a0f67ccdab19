"""`redactory demo`: everything once, on this machine, with nothing left running."""

from pipeline.demo.run import Demo, run_demo
from pipeline.demo.show import print_demo

__all__ = ["Demo", "print_demo", "run_demo"]
