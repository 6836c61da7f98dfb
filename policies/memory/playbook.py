"""A playbook of numbered items that changes item by item, and is never rewritten as a whole.

After ACE (Zhang et al., 2025, section 3: a reflector draws lessons, a curator turns them into small deltas of itemised
entries, which are merged without a model).
"""

from __future__ import annotations

from ..replies import as_text
from .builtin import BuiltinMemory
from .stores import MemoryState
from .writers import FACTS, Writer, Writing, listed, merged


class PlaybookMemory(BuiltinMemory):
    """The built-in memory, but for how ``write.mode: facts`` writes: lessons change items of the whole playbook.

    ``prompts.write`` draws lessons, ``prompts.merge`` shows all items by number and adds, edits or removes some.
    """

    @property
    def _writer(self) -> Writer | None:
        return _write if self.policy.write.mode == "facts" else None


async def _write(writing: Writing) -> MemoryState:
    known = {str(entry.id): entry.text for entry in writing.state.entries}
    given = await writing.ask(writing.prompt(known), FACTS)
    lessons = [as_text(lesson) for lesson in listed(given, "facts") if lesson]
    return await merged(writing, lessons, [*writing.state.entries]) if lessons else writing.state
