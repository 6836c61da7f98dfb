"""What a command gives to see is the same each time, and short."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.chunks import BYTES_PER_TOKEN, MOST_CHUNK_TOKENS
from mnemotune.env.swe.observation import MOST_PIECES, MOST_TOKENS, cut, is_well, pieces, seen, steady

NOW = datetime(2026, 11, 24, 10, 30, 5, tzinfo=UTC)
PARTS = (
    "<object at 0x7f22aa10> in 0.12s pid 123 process 4 /tmp/tmpab12cd_9 /tmp/tmp.AbCdEf 2026-11-24 10:30:05,123 Nov 24"
    " 10:30 Tue 2026 UTC 1795516205.5 real\t0m0.01s user 0.1s === 3 passed in 0.1s ==="
).split(" ")
TEXTS = st.lists(
    st.sampled_from([*PARTS, *PARTS, "\n", "\r\n", "\r", "\x1b[31m", "\x1b", "[0m", "\x00", "é", " "])
).map(" ".join) | st.text(max_size=400)


@given(TEXTS)
def test_a_steady_text_stays_as_it_is(text: str) -> None:
    once = steady(text, NOW)
    assert steady(once, NOW) == once
    assert "\r" not in once
    assert "\x1b" not in once


@given(TEXTS, st.integers(1, 60))
def test_a_cut_text_fits_and_stays_as_it_is(text: str, length: int) -> None:
    short = cut(text * 30, 40)
    assert len(short.encode("utf-8", "surrogatepass")) <= 40 * BYTES_PER_TOKEN
    assert cut(short, 40) == short


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<T object at 0x7f1234567890>", "<T object at <address>>"),
        ("MASK = 0xdeadbeef", "MASK = 0xdeadbeef"),
        ("Ran 3 tests in 0.004s", "Ran 3 tests in <time>"),
        ("====== 2 passed in 0.53s ======", "== 2 passed in <time> =="),
        ("-rw-r--r-- 1 agent agent 5 Nov 24 10:29 a", "-rw-r--r-- 1 agent agent 5 <date> a"),
        ("-rw-r--r-- 1 agent agent 5 Jan  1  2000 a", "-rw-r--r-- 1 agent agent 5 Jan  1  2000 a"),
        ("Tue Nov 24 10:30:06 UTC 2026", "<date>"),
        ("2026-11-24T10:30:05.123456+00:00 up", "<date> up"),
        ("expected 2024-02-29 10:30, got 2024-03-01 10:30", "expected 2024-02-29 10:30, got 2024-03-01 10:30"),
        ("/tmp/tmpa8_x2k1q/file", "/tmp/<name>/file"),  # noqa: S108
        ("started pid 4711", "started pid <number>"),
        ("\x1b[1;31mred\x1b[0m\r\nnext", "red\nnext"),
        ("real\t0m0.012s", "real\t<time>"),
    ],
)
def test_what_differs_from_time_to_time_is_masked_and_nothing_else(before: str, after: str) -> None:
    assert steady(before, NOW) == after


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat a", "=" * 100_000),
        ("cat a", "= in 1.1" * 12_000),
        ("cat a", "user\n" + "\n" * 100_000),
        ("cat a", "\x1b[" * 50_000),
        (f"grep -{'r' * 99_000}|", ""),
        (f"grep {'-r ' * 33_000}|", ""),
        (f"grep -r -{'A' * 40_000}=", ""),
    ],
    ids=range(7),
)
def test_what_is_long_and_of_one_kind_is_seen_soon(command: str, output: str) -> None:
    begin = perf_counter()
    seen(command, output.encode(), status=0, most=1_000_000, now=NOW)
    assert perf_counter() - begin < 4


def test_midnight_makes_no_difference() -> None:
    late = datetime(2026, 11, 24, 23, 59, 59, tzinfo=UTC)
    assert steady("at 2026-11-25 00:00:01", late) == steady("at 2026-11-24 23:59:58", late + timedelta(seconds=5))


def test_how_a_command_ended_stands_at_the_end_and_cannot_be_feigned() -> None:
    def of(output: bytes, status: int = 0, most: int = 100) -> str:
        return seen("x", output, status=status, most=most, now=NOW)

    assert of(b"") == "[no output]"
    assert of(b"a\n", 3) == "a\n[exit status 3]"
    assert of(b"as far as it came", 137).startswith("[killed"), "how far it came is chance"
    assert of(b"x" * 200, 141).splitlines()[-2:] == ["[cut after 100 bytes]", "[exit status 141]"]
    assert is_well(of(b"fine"))
    assert not is_well(of(b"fine", 1))
    assert is_well(of(b"[exit status 1]\nfine"))


def test_files_come_in_one_order_where_a_command_only_lists_them() -> None:
    def of(command: str) -> str:
        return seen(command, b"./b\n./a\n", status=0, most=100, now=NOW)

    for command in (
        "find . -name '*.py'",
        "find . -maxdepth 2 -mtime -1 -not -path './.git/*'",
        "grep -rn x src",
        "grep -i -R x",
        "grep -rn 'a -Bar' .",
    ):
        assert of(command) == "./a\n./b", command
    for command in (
        "find . -name '*.py' -exec cat {} +",
        "grep -rn -A5 x src",
        "grep -rh x",
        "grep -rhn x .",
        "grep -hrn x .",
        "grep -r x --context=2",
    ):
        assert of(command) == "./b\n./a", command
    assert of("find . | head") == of("grep x file") == of("find . -exec cat {} \\; ; ls") == "./b\n./a"


@given(st.text(max_size=700), TEXTS)
def test_pieces_are_small_and_begin_with_the_command(command: str, text: str) -> None:
    parts = pieces(command, cut(text * 40))
    assert 0 < len(parts) <= MOST_PIECES
    for part in parts:
        assert len(part.encode("utf-8", "surrogatepass")) <= MOST_CHUNK_TOKENS * BYTES_PER_TOKEN
        assert part.startswith("$ ")


def test_pieces_that_are_left_out_are_marked() -> None:
    lines = [f"{number} {'x' * 420}" for number in range(18)]
    parts = pieces("cat a", "\n".join(lines))
    assert len(parts) == MOST_PIECES
    assert [part.partition("\n")[2] for part in parts if "x" not in part] == ["[...]"]
    assert parts[0].endswith(lines[0])
    assert parts[-1].endswith(lines[-1])


def test_a_long_output_keeps_its_beginning_and_its_end() -> None:
    text = "\n".join(f"line {number}" for number in range(10_000))
    short = cut(text)
    assert short.startswith("line 0\nline 1\n")
    assert short.endswith("\nline 9999")
    assert "\n[...]\nline " in short
    assert len(short) <= MOST_TOKENS * BYTES_PER_TOKEN
