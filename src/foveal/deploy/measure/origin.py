"""Where a figure comes from: machine, versions, threads, commit and day. Every table that foveal writes carries it."""

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import foveal


def origin(device: str = "cpu", threads: int | None = None) -> dict[str, str]:
    """The facts that a figure needs beside it."""
    facts = {"foveal": foveal.__version__, "commit": _commit(), "date": dt.datetime.now(dt.UTC).date().isoformat()}
    facts |= {
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "system": platform.system(),
        "python": platform.python_version(),
    }
    for package in ("torch", "triton", "transformers", "ctranslate2", "onnxruntime", "numpy"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if device.startswith("cuda"):
        import torch

        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["cudnn"] = str(torch.backends.cudnn.version())
    elif threads is not None:
        facts["threads"] = str(threads)
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    """The commit of the source tree that this foveal runs from, or FOVEAL_COMMIT, for a copy without git;
    else unknown.
    """
    if commit := os.environ.get("FOVEAL_COMMIT"):
        return commit
    try:
        here = Path(__file__).parent
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"
