"""Writes read a second by one model of ours: with ONNX and torch on the CPU, and on the GPU by size of batch.

python -m mnemotune.experiments.memrm.reading ROWS [--model tiny] [--writes 600]
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated

import typer

from ...env.memrm.model.onnx_runner import OnnxRunner
from ...env.memrm.model.runner import Runner
from ...env.memrm.model.scoring import MemRM, Prompts, folder_of, load_memrm
from ...env.memrm.rows.row import read_rows
from ...optimizer.views.table import markdown_lines
from ..command import run

SIZES = (2048, 8192, 32_768, 131_072)
"""Tokens of a batch on the GPU."""
ROUNDS = 3
COLUMNS = ("", "writes read a second", "with their prompts made", "µs a write read", "GiB of the GPU at most")


def seconds(model: MemRM, prompts: Prompts) -> float:
    """Return how long a model takes to read prompts anew; the median of some rounds, after one that is not timed."""
    rounds = []
    for _ in range(ROUNDS + 1):
        model.forget()
        began = time.perf_counter()
        model.differences(prompts)
        rounds.append(time.perf_counter() - began)
    return statistics.median(rounds[1:])


def main(
    rows: Path,
    model: Annotated[str, typer.Option(help="A checkpoint that was trained from scratch.")] = "tiny",
    writes: int = 600,
) -> None:
    """Print a table."""
    import torch  # imported late: of the extra `memrm`

    from ...env.memrm.model.checkpoint import ONNX
    from ...env.memrm.model.torch_runner import TorchRunner, load_qwen3

    every = [row.event for row in read_rows(rows)]
    events = every[:: max(1, len(every) // writes)][:writes]
    loaded, folder = load_memrm(model), folder_of(model)
    loaded.encode(events)  # words are kept once they were looked at
    began = time.perf_counter()
    prompts = loaded.encode(events)
    made = time.perf_counter() - began

    def line(name: str, runner: Runner) -> tuple[str, ...]:
        taken = seconds(MemRM(runner, loaded.tokens, loaded.card), prompts)
        peak = f"{torch.cuda.max_memory_allocated() / 2**30:.2f}" if name.startswith("GPU") else ""
        rate, whole = len(events) / taken, len(events) / (taken + made)
        return name, f"{rate:,.0f}", f"{whole:,.0f}", f"{1e6 / rate:,.0f}", peak

    lines = [line("CPU, ONNX", OnnxRunner(folder / ONNX))]
    lines.append(line("CPU, torch", TorchRunner(load_qwen3(folder, loaded.tokens))))
    for size in SIZES if torch.cuda.is_available() else ():
        runner = TorchRunner(load_qwen3(folder, loaded.tokens).to("cuda"))
        runner.batch_tokens = size
        torch.cuda.reset_peak_memory_stats()
        lines.append(line(f"GPU, batches of {size:,} tokens", runner))
    print("\n".join(markdown_lines(COLUMNS, lines)))


if __name__ == "__main__":
    run(main)
