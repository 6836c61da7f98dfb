"""What a command gives to see: the same each time that it does the same, short, and in pieces for a memory."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta

from ...data.chunks import BYTES_PER_TOKEN, MOST_CHUNK_TOKENS, chunks

MOST_TOKENS = 1_500
"""Of a command's output; of more, the beginning and the end are kept."""
MOST_HEAD_TOKENS = 40
"""Of the command before each piece."""
MOST_PIECES = 12
"""Of a command."""
KILLED = 137
"""The exit status of what was ended by the engine, or by the system for its memory."""
UNORDERED = re.compile(r"(?=[^|;&<>`$\n]*\Z)(?:find|grep (?:-\w+ )*-[^\WrR]*[rR]\w*)(?: .*)?")
"""A command by itself whose lines come as a file system has its files."""
ORDERED = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|printf)"),
    "grep": re.compile(r"-(?:\d+|[D-Za-gi-z]*[ABCh]\w*)|--(?:(?:after-|before-)?context|no-filename)(?:=.*)?"),
}
"""Their options with which a line means something by those around it."""
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_ZONE = r"(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?"
_STEADY = (
    (re.compile(r"\bat 0x[0-9a-fA-F]{5,16}\b"), "at <address>"),
    (re.compile(r"(?<!=)=+ ([^=\n]*) in \d+\.\d+s(?: \([\d:]+\))? =+"), r"== \1 in <time> =="),
    (re.compile(r"\bin \d+\.\d+ ?(?:s|sec|seconds)\b"), "in <time>"),
    (re.compile(r"^(real|user|sys)(\s+)(?:\d+m)?\d+[.,]\d+s?$", re.MULTILINE), r"\1\2<time>"),
    (re.compile(r"\b(pid|PID|process)([ =:#]{1,2})\d+\b"), r"\1\2<number>"),
    (re.compile(r"/tmp/tmp(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{6,10})(?![A-Za-z0-9_])"), "/tmp/<name>"),  # noqa: S108 - in a container
)
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


def seen(command: str, output: bytes, *, status: int, most: int, now: datetime) -> str:
    """Return what a command gives to see: its output, how it ended where that was not well, or that there is none.

    Of more than ``most`` bytes of output the rest is lost, which is said.
    """
    if status == KILLED:
        output = b""  # how much of it came through is chance
    text = steady(output[:most].decode("utf-8", "replace"), now).strip("\n")
    if _is_unordered(command.strip()):
        text = "\n".join(sorted(text.split("\n")))
    ends = [f"[cut after {most} bytes]"] if len(output) > most else []
    if status == KILLED:
        ends.append("[killed: its time is over, or it has taken too much memory]")
    if status:
        ends.append(f"[exit status {status}]")
    return "\n".join([cut(text), *ends]).strip("\n") or "[no output]"


def _is_unordered(command: str) -> bool:
    if not UNORDERED.fullmatch(command):
        return False
    try:
        name, *words = shlex.split(command)
    except ValueError:  # a quotation is open
        return False
    return not any(map(ORDERED[name].fullmatch, words))


def is_well(text: str) -> bool:
    """Tell whether what was seen is of a command that ended well."""
    return re.fullmatch(r"\[exit status \d+\]", text.rpartition("\n")[2]) is None


def steady(text: str, now: datetime) -> str:
    """Return a text without what differs from time to time; of a steady text, the same.

    Colours and control characters are left out. Addresses of objects, times that something took, numbers of processes
    and the names of temporary files are masked; and so are dates, where they are of the day of ``now`` or of a
    neighbour: what a source or a test says of other days stands as it is.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    for pattern, mask in (*_STEADY, *_dates(now)):
        text = pattern.sub(mask, text)
    return text


def _dates(now: datetime) -> list[tuple[re.Pattern[str], str]]:
    """Return how dates about now are masked."""
    days = [now.astimezone(UTC) + timedelta(days=day) for day in (-1, 0, 1)]
    iso = "|".join(f"{day:%Y-%m-%d}" for day in days)
    named = "|".join(f"{day:%b} {day.day:>2}|{day:%b} {day:%d}" for day in days)
    years = "|".join({f"{day:%Y}" for day in days})
    seconds = "|".join({str(int(day.timestamp()))[:5] for day in days})
    return [
        (re.compile(rf"\b(?:{iso})(?:[T ]{_CLOCK}{_ZONE})?"), "<date>"),
        (re.compile(rf"\b(?:[A-Z][a-z]{{2}},? )?(?:{named}) {_CLOCK}(?: UTC)?(?: (?:{years}))?\b"), "<date>"),
        (re.compile(rf"\b(?:{seconds})\d{{5}}(?:\.\d+)?\b"), "<date>"),
    ]


def cut(text: str, tokens: int = MOST_TOKENS) -> str:
    """Return a text of so many tokens at most: of a longer one, its beginning and its end, at line ends if it can."""
    if len(text.encode("utf-8", "surrogatepass")) <= tokens * BYTES_PER_TOKEN:
        return text
    mark = "\n[...]\n"
    half = tokens // 2 - len(mark)
    return f"{chunks(text, tokens=half)[0].rstrip()}{mark}{_tail(text, half * BYTES_PER_TOKEN)}"


def _tail(text: str, most: int) -> str:
    end = text.encode("utf-8", "surrogatepass")[-most:].decode("utf-8", "ignore")
    return end.partition("\n")[2] or end


def pieces(command: str, text: str) -> tuple[str, ...]:
    """Return a command and what it gave to see in pieces of 200 tokens or fewer; each begins with the command."""
    head = f"$ {chunks(command.strip() or ':', tokens=MOST_HEAD_TOKENS)[0].rstrip()}"
    room = MOST_CHUNK_TOKENS - -(-(len(head.encode("utf-8", "surrogatepass")) + 1) // BYTES_PER_TOKEN)
    parts = chunks(text or "[no output]", tokens=room)
    half = MOST_PIECES // 2
    kept = parts if len(parts) <= MOST_PIECES else [*parts[: half - 1], "[...]", *parts[-half:]]
    return tuple(f"{head}\n{part.rstrip()}" for part in kept)
