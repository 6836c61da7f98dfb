"""Prompts: a language model reads failures and edits the prompt that they belong to (DSPy)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...policies.lm import BudgetExhausted, EndpointDown, LanguageModel, Message, Request
from ...policies.prompts import REQUIRED_SLOTS
from ..study import Evidence

PURPOSES = {
    "write_profile": "tells the assistant which memories about the user to write, as a map of label to text",
    "write_facts": "tells the assistant which facts about the user to write",
    "merge": "tells the assistant how new facts change the known ones",
    "reply_context": "is the system prompt that shows the assistant its memories of the user",
    "reply_external": "is the system prompt that shows the assistant the memories of the user that were found",
    "answer": "puts a multiple-choice question to the assistant, whose memories stand before it",
}

SLOT_OF_STAGE = {"write": ("write",), "read": ("merge", "write"), "utilisation": ("answer",)}
"""Which prompt a failure of each stage belongs to: the first that the policy uses."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A prompt as the proposer rewrote it."""

    slot: str
    text: str
    reason: str


def slot_for(stage: str, slots: Collection[str]) -> str:
    """Return which of a policy's prompt ``slots`` the failures of a stage belong to."""
    return next((slot for slot in SLOT_OF_STAGE[stage] if slot in slots), "answer")


async def edit_prompt(
    slot: str, prompt: str, *, kind: str, evidence: Sequence[Evidence], model: LanguageModel
) -> Edit | None:
    """Ask the model to improve one prompt in the light of failures.

    Returns None when it has nothing to say, and the prompt as it was when it says it unreadably. Raises BudgetExhausted
    or EndpointDown.
    """
    dspy = _dspy()
    engine = _Engine(model)
    lm = dspy.LM(f"mnemotune/{model.name}", engine=_NoSyncEngine(), async_engine=engine, cache=False)
    slots = ", ".join(f"{{{name}}}" for name in REQUIRED_SLOTS[kind])
    try:
        with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
            prediction = await dspy.Predict(_signature()).acall(
                purpose=f"This prompt {PURPOSES[kind]}. Its slots {slots} must stay as they are.",
                current_prompt=prompt,
                failures=[e.text for e in evidence],
            )
    except Exception as error:  # noqa: BLE001 - DSPy wraps errors in many types; ours are told apart here
        if engine.stopped is not None:
            raise engine.stopped from None
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Edit(slot, prompt, f"the proposer's reply was of no use: {first_line[:200]}")
    text = str(prediction.improved_prompt).strip()
    if not text or text == prompt.strip():
        return None
    return Edit(slot, text, " ".join(str(prediction.analysis).split())[:300])


@cache
def _dspy() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dspy  # imported late: half a second that most commands do not need
    return dspy


@cache
def _signature() -> Any:
    dspy = _dspy()

    class ImprovePrompt(dspy.Signature):  # type: ignore[misc, name-defined]
        """Improve one prompt of an assistant with long-term memory.

        Each failure tells the question that was answered wrongly, what the user had said, and what memory held. Find
        out what in the prompt let this happen, and change the prompt so that such failures become rare for all users.
        Keep what works, keep every slot in braces and the format that it asks for, and do not mention single users.
        """

        purpose: str = dspy.InputField(desc="what the prompt is for")
        current_prompt: str = dspy.InputField(desc="the prompt to improve")
        failures: list[str] = dspy.InputField(desc="wrong answers, with what the user had said and what memory held")
        analysis: str = dspy.OutputField(desc="in one or two sentences: what went wrong, what you change")
        improved_prompt: str = dspy.OutputField(desc="the whole new prompt")

    return ImprovePrompt


class _NoSyncEngine:
    """DSPy wants a synchronous engine beside the asynchronous one; nothing here calls it."""

    def complete(self, request: Any) -> Any:
        raise RuntimeError("the reflective proposer is asynchronous; call it with `acall`")


class _Engine:
    """Lets DSPy speak to one of our language models."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.stopped: BudgetExhausted | EndpointDown | None = None

    async def complete(self, request: Any) -> Any:
        lm15 = _dspy().lm15
        messages = [Message("system", _text(request.system))] if request.system else []
        messages += [Message(m.role, "".join(part.text for part in m.parts)) for m in request.messages]
        try:
            completion = await self._model.complete(Request(tuple(messages), role="propose", max_tokens=4096))
        except (BudgetExhausted, EndpointDown) as error:
            self.stopped = error
            raise
        usage = completion.usage
        return lm15.Response(
            id="mnemotune",
            model=request.model,
            message=lm15.Message.assistant(completion.text),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
        )


def _text(system: Any) -> str:
    return system if isinstance(system, str) else "".join(part.text for part in system)
