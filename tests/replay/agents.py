"""Agents for the isolated process, which imports them from here."""

import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pipeline.emitter import World


def tick(world: World, task: Any) -> Any:
    """One tool, one answer."""
    return world.tool("tick", {}, lambda asked: "tock")


def _then(world: World, attempt: Any) -> Any:
    """A tool, then something past the boundary, whose error it catches."""
    found = tick(world, None)
    try:
        attempt()
    except Exception:
        return found
    return "reached the world"


def opens_a_socket(world: World, task: Any) -> Any:
    """Connects by hand."""
    return _then(world, lambda: socket.create_connection(("127.0.0.1", task["port"]), 5))


def uses_urllib(world: World, task: Any) -> Any:
    """The standard library's client."""
    return _then(world, lambda: urllib.request.urlopen(f"http://127.0.0.1:{task['port']}"))


def uses_httpx(world: World, task: Any) -> Any:
    """A client that is imported inside."""

    def get() -> Any:
        import httpx

        return httpx.get(f"http://127.0.0.1:{task['port']}")

    return _then(world, get)


def uses_requests(world: World, task: Any) -> Any:
    """Another."""

    def get() -> Any:
        import requests

        return requests.get(f"http://127.0.0.1:{task['port']}", timeout=5)

    return _then(world, get)


def starts_a_program(world: World, task: Any) -> Any:
    """A process of its own would be free."""
    return _then(world, lambda: subprocess.run([sys.executable, "-c", ""], check=True))


def forks(world: World, task: Any) -> Any:
    """So would a child."""
    return _then(world, os.fork)


def writes_outside(world: World, task: Any) -> Any:
    """Leaves something behind."""
    return _then(world, lambda: Path(task["outside"]).write_text("here"))


def removes_outside(world: World, task: Any) -> Any:
    """Takes something away."""
    return _then(world, lambda: Path(task["outside"]).unlink())


def writes_inside(world: World, task: Any) -> Any:
    """Its scratch directory is its own."""
    Path("notes.txt").write_text("mine")
    Path("notes.txt").rename("kept.txt")
    return [tick(world, task), Path("kept.txt").read_text()]


def calls_live(world: World, task: Any) -> Any:
    """A call that nobody recorded, whose function would reach the world."""
    tick(world, task)
    return world.tool("get", {}, lambda asked: socket.create_connection(("127.0.0.1", 9)))


def searches(world: World, task: Any) -> Any:
    """Looks for a word, in files, environment and processes, and says where it found it."""
    word = "".join(task["word"])
    found = [name for name, value in os.environ.items() if word in value]
    for place in (*task["places"], str(Path.home()), ".", "/proc/self", f"/proc/{os.getppid()}"):
        for folder, _, names in os.walk(place):
            found += [str(path) for name in names if _holds(path := Path(folder) / name, word)]
    return [tick(world, task), found]


def _holds(path: Path, word: str) -> bool:
    try:
        return path.is_file() and word.encode() in path.read_bytes()[: 1 << 20]
    except OSError:
        return False


async def waits(world: Any, task: Any) -> Any:
    """An agent that awaits, which needs an event loop."""

    async def call(asked: Any) -> Any:
        return "tock"

    return await world.tool("tick", {}, call)


def chosen(world: World, task: Any) -> Any:
    """Any of these, by the task: one isolated process then does for many."""
    agent: Any = globals()[task["agent"]]
    return agent(world, task)
