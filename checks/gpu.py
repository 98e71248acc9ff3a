"""Does the GPU path work, and how fast is it? Started by checks/gpu.sh, which has the commands.

machine       the card, its driver, and versions of what graphrf uses; missing packages are named
tests         the tests with the mark `cuda`
bits          walks and pools beside the compiled loops, on three graphs
walks to gp   the parts of benchmarks/device.py on a million nodes, the Gaussian process with
              100,000 observations
large         walks and features of ten million nodes

Every part is a process of its own, which is stopped at its time limit; the limits add up to less
than eight minutes. The tables, with each part's last line and all figures, are written again after
every part, so that a failure, a hang or the end of the machine loses nothing of the other parts.
The exit status is 0 if all passed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# What the parts import.
PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "networkx",
    "torch",
    "gpytorch",
    "linear_operator",
    "botorch",
    "torch-geometric",
    "scikit-learn",
    "pymetis",
    "trimesh",
    "platformdirs",
    "requests",
    "threadpoolctl",
    "tqdm",
    "typer",
    "pytest",
    "hypothesis",
    "pytest-xdist",
)
# Time limits in seconds: a few times what each part should take on a GPU, compilation included.
SECONDS = {
    "machine": 30,
    "tests": 90,
    "bits": 40,
    "walks": 25,
    "features": 90,
    "products": 25,
    "pagerank": 40,
    "gp": 45,
    "large": 90,
}
SIZES = {
    "cuda": ["--nodes", "1000000", "--observed", "100000", "--large", "10000000"],
    "cpu": ["--nodes", "2500", "--observed", "600", "--large", "10000", "--walks", "8"],
}


@dataclass
class Outcome:
    """One part: how it ended, its seconds, its last line, and the figures that it wrote."""

    part: str
    ended: str
    seconds: float
    line: str
    figures: list[dict[str, Any]] = field(default_factory=list)


def commands(device: str, out: Path) -> dict[str, list[str]]:
    """The command of each part, in their order."""
    python = sys.executable
    marked = [
        str(file)
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.cuda" in file.read_text()
    ]
    # uncaptured, so that a failure is printed at once
    # (tests/support/gpu.py); a test that hangs prints where
    pytest = ["-m", "pytest", "-v", "-s", "-m", "cuda", "-p", "no:cacheprovider", "-W", "default"]
    pytest += ["-o", "faulthandler_timeout=30", *marked]
    benchmark = [python, "benchmarks/device.py", "--device", device, *SIZES[device]]
    made = {
        "machine": [python, __file__, "--device", device, "--machine"],
        "tests": [python, *pytest],
    }
    for part in list(SECONDS)[2:]:
        made[part] = [*benchmark, "--parts", part, "--json", str(out / f"gpu-{part}.json")]
    return made


def run(part: str, command: Sequence[str], seconds: float, out: Path, device: str) -> Outcome:
    """Run a part and all processes that it starts, within so many seconds; log its output."""
    figures = out / f"gpu-{part}.json"
    figures.unlink(missing_ok=True)
    output = out / f"gpu-{part}.log"
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "GRAPHRF_TEST_DEVICE": device}
    # Threads that wait for each other on a busy machine take a hundred times as long.
    if device == "cpu":
        environment["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
            ended = "passed" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            ended = f"stopped after {seconds:g} s"
        # A part that has ended may have left processes running.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A process that waits for a driver may not end.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    taken = time.perf_counter() - started
    text = output.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip(" =") for line in text.splitlines() if line.strip(" =")]
    if part == "tests" and ended == "passed" and "skipped" in lines[-1]:
        ended = "failed (tests were skipped)"
    with (out / "gpu.log").open("a", encoding="utf-8") as log:
        log.write(f"== {part}: {ended}, {taken:.1f} s\n{text}\n")
    output.unlink()
    outcome = Outcome(part, ended, round(taken, 1), lines[-1] if lines else "")
    # There is none, or its writer was stopped.
    with contextlib.suppress(OSError, json.JSONDecodeError):
        outcome.figures = json.loads(figures.read_text(encoding="utf-8"))
    figures.unlink(missing_ok=True)
    return outcome


def table(outcomes: Sequence[Outcome], card: str) -> str:
    """Markdown: the parts, and the figures."""
    lines = [f"{date.today():%-d %B %Y}: {card}", ""]
    lines += ["| part | outcome | seconds | last line |", "|" + 4 * "---|"]
    lines += [f"| {o.part} | {o.ended} | {o.seconds:.0f} | {_cell(o.line)} |" for o in outcomes]
    lines += [
        "",
        "| part | what | figure | range | GB/s | of a copy | peak GiB |",
        "|" + 7 * "---|",
    ]
    for outcome in outcomes:
        for figure in outcome.figures:
            low, high = figure.get("low"), figure.get("high")
            cells = [outcome.part, _cell(figure["name"]), f"{figure['value']:.4g} {figure['unit']}"]
            cells.append("" if low == high else f"{low:.4g} to {high:.4g}")
            cells += [
                _number(figure.get(name)) for name in ("gb_per_s", "share_of_copy", "peak_gib")
            ]
            lines.append(f"| {' | '.join(cells)} |")
    peaks = [
        figure["peak_gib"]
        for outcome in outcomes
        for figure in outcome.figures
        if "peak_gib" in figure
    ]
    if peaks:
        lines += ["", f"Largest peak of the device's memory: {max(peaks):.2f} GiB."]
    passed = sum(outcome.ended == "passed" for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    lines += ["", f"{passed} passed, {len(outcomes) - passed} failed, {seconds:.0f} s"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """One cell of a table: no bars, and not too long."""
    return text.replace("|", "/")[:160]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def card_of(device: str) -> str:
    """The name of the card, its driver and its memory, as nvidia-smi has them."""
    if device == "cpu":
        return "no GPU, a rehearsal on the CPU"
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            query, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    return "nvidia-smi does not answer"


def machine(device: str) -> None:
    """Print nvidia-smi and versions; fail where a package is missing or torch has no GPU."""
    if device == "cuda":
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["nvidia-smi"], check=False)
    missing = []
    for package in PACKAGES:
        try:
            print(package, version(package))
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        raise SystemExit(
            f"missing here: {' '.join(missing)}; add them to checks/gpu_wheels.sh and download "
            "again"
        )
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"torch {torch.__version__} sees no GPU")
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}")


def written(file: Path, text: str) -> None:
    """Replace the file, which at no time is only part of the text."""
    new = file.with_name(file.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=SIZES, default="cuda")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu", metavar="FOLDER")
    parser.add_argument("--parts", nargs="+", choices=SECONDS, default=list(SECONDS))
    parser.add_argument("--machine", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.machine:
        machine(options.device)
        return
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, Outcome] = {}
    if set(options.parts) == set(SECONDS):
        (out / "gpu.log").unlink(missing_ok=True)
    elif (out / "gpu.json").exists():  # the parts that are not run again keep their results
        outcomes = {
            part["part"]: Outcome(**part) for part in json.loads((out / "gpu.json").read_text())
        }
    card = card_of(options.device)
    for part, command in commands(options.device, out).items():
        if part in options.parts:
            # A rehearsal is not timed.
            seconds = SECONDS[part] * (1 if options.device == "cuda" else 10)
            outcomes[part] = run(part, command, seconds, out, options.device)
            print(f"{part}: {outcomes[part].ended}, {outcomes[part].seconds:.0f} s", flush=True)
            written(out / "gpu.md", table(list(outcomes.values()), card))
            written(
                out / "gpu.json", json.dumps([vars(each) for each in outcomes.values()], indent=1)
            )
    print(table(list(outcomes.values()), card))
    sys.exit(any(outcome.ended != "passed" for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
