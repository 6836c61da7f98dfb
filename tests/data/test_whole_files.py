"""Files that are written whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

from mnemotune.data.whole_files import write_whole


def test_threads_that_write_one_file_leave_one_of_their_texts(tmp_path: Path) -> None:
    path, texts, broken = tmp_path / "memory.json", [letter * 50_000 for letter in "abc"], list[BaseException]()
    write_whole(path, texts[0])

    def write(text: str) -> None:
        try:
            for _ in range(50):
                write_whole(path, text)
                assert path.read_text() in texts
        except BaseException as error:  # noqa: BLE001 - shown below
            broken.append(error)

    threads = [threading.Thread(target=write, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []
    assert [*tmp_path.iterdir()] == [path]
