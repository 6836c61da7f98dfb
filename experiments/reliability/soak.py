"""The memory of one long search, as its calls go by; the embedded model answers behind a server of its own.

python -m mnemotune.experiments.reliability.soak OUT [--calls 1000000]
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..child import start
from ..command import run
from .outages import embedded_server

CONFIG = Path(__file__).with_name("soak.yaml")
SECONDS_BETWEEN = 5.0
SPENT = re.compile(rb"spent ([0-9,]+) calls")
PARTS = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """How a process stood."""

    calls: int
    """Spent, as the search last said."""
    seconds: float
    resident_mib: float


def samples(process: subprocess.Popen[bytes], log: Path) -> Iterator[Sample]:
    """Look at a process until it ends."""
    began, page = time.monotonic(), os.sysconf("SC_PAGE_SIZE")
    while process.poll() is None:
        pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
        said = SPENT.findall(log.read_bytes())
        calls = int(said[-1].replace(b",", b"")) if said else 0
        yield Sample(calls, time.monotonic() - began, pages * page / 2**20)
        time.sleep(SECONDS_BETWEEN)


def main(
    out: Annotated[Path, typer.Argument(help="A new folder.")],
    calls: Annotated[int, typer.Option(help="The search ends when so many are spent.")] = 1_000_000,
) -> None:
    """Search in one process, and write how it stood to ``samples.jsonl`` as it goes."""
    out.mkdir(parents=True)
    told = out / "log.txt"
    with embedded_server() as url, told.open("wb") as log:
        arguments = ["evolve", str(CONFIG), "--out", str(out / "run")]
        arguments += ["--set", f"endpoint.base_url={url}", "--set", f"search.budget.calls={calls}"]
        process = start("mnemotune", *arguments, stdout=log, stderr=log)
        every = []
        for sample in samples(process, told):
            every.append(sample)
            with (out / "samples.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(sample)) + "\n")
        if process.returncode:
            raise SystemExit(f"the search ended with {process.returncode}; see {told}")
    last = every[-1].calls
    print("| of the calls | calls | calls / s | resident MiB, median and most |\n|---|---|---|---|")
    for part in range(PARTS):
        here = [s for s in every if part * last <= s.calls * PARTS < (part + 1) * last or s.calls == last == part + 1]
        if len(here) > 1:
            rate = (here[-1].calls - here[0].calls) / (here[-1].seconds - here[0].seconds)
            sizes = [sample.resident_mib for sample in here]
            print(
                f"| {part * 100 // PARTS} to {(part + 1) * 100 // PARTS} % | {here[-1].calls:,} | {rate:,.0f} "
                f"| {statistics.median(sizes):,.0f}, {max(sizes):,.0f} |"
            )
    halves = [[s.resident_mib for s in every if (s.calls > last / 2) == late] for late in (False, True)]
    print()
    measures: dict[str, Callable[[list[float]], float]] = {
        "mean": statistics.mean, "median": statistics.median, "most": max
    }  # fmt: skip
    for name, measure in measures.items():
        first, second = measure(halves[0]), measure(halves[1])
        print(f"{name} {first:,.0f} MiB in the first half, {second:,.0f} MiB in the second: {second / first - 1:+.1%}")


if __name__ == "__main__":
    run(main)
