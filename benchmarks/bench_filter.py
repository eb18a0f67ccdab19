"""How much memory `redactory redact` takes for a stream of any length.

    python benchmarks/bench_filter.py [--gigabytes 2]

Seeded agent events, one in a hundred with a secret or an address, go into the filter's standard
input until so many bytes have gone; what comes out is counted and searched for a planted key.
Prints the filter's highest resident memory after a hundredth of the stream and at its end.
"""

import argparse
import random
import subprocess
import sys
import threading
import time
from typing import BinaryIO

import psutil
from bench_redact import event, letters

BLOCK_EVENTS = 2_000


def main() -> None:
    """Runs the stream and prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    size = int(parser.parse_args().gigabytes * 1e9)
    rng = random.Random(1)
    planted = "AKIA" + letters(rng, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
    block = "".join(event(rng, at, rng.random() < 0.01) + "\n" for at in range(BLOCK_EVENTS))
    block += f'{{"note": "{planted}"}}\n'
    command = [sys.executable, "-P", "-m", "pipeline", "redact"]
    started = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        out: list[tuple[int, int]] = []
        reader = threading.Thread(target=lambda: out.append(drained(process.stdout, planted)))
        reader.start()
        early, highest = fed(process, process.stdin, block.encode(), size)
        process.stdin.close()
        reader.join()
    (lines, left) = out[0]
    print(f"{size / 1e9:g} GB in, {lines:,} lines out in {time.monotonic() - started:.0f} s")
    print(f"resident memory: {early} MB after a hundredth, {highest} MB at the most")
    print(f"planted keys left: {left}; exit code {process.returncode}")


def fed(
    process: "subprocess.Popen[bytes]", stream: BinaryIO, block: bytes, size: int
) -> tuple[int, int]:
    """Writes the stream; the highest resident MB after a hundredth of it and altogether."""
    watched = psutil.Process(process.pid)
    early = highest = sent = 0
    while sent < size:
        stream.write(block)
        sent += len(block)
        highest = max(highest, watched.memory_info().rss // 2**20)
        if sent <= size // 100 or not early:
            early = highest
    return early, highest


def drained(stream: "BinaryIO | None", planted: str) -> tuple[int, int]:
    """How many lines came out, and in how many of them the planted key is left."""
    assert stream is not None
    lines = left = 0
    for line in stream:
        lines += 1
        left += planted.encode() in line
    return lines, left


if __name__ == "__main__":
    main()
