"""The reflective proposer: a language model reads failures, and edits prompts and numbers that can mend them (DSPy)."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ...env.scoring import FailureKind
from ...policies.forms import NUMBER, TEXT, ReplyForm, Schema, one_of, record, some_of
from ...policies.knob import Knob, Range
from ...policies.lm import BudgetExhausted, EndpointDown, LanguageModel, Message, Request
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ...policies.space import Space, nested
from ..study import Evidence, Trial, raced
from .proposer import BaseProposer, Candidate, Means, candidate, pick_parent, policy_of

LEAST_SHARE = 1e-9
"""Weight of a kind of failures that no answer was lost to, or whose share is not known."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A language model's changes to prompts and numbers."""

    prompts: Mapping[str, str]
    """The prompts that are new, by slot."""
    numbers: Mapping[str, int | str]
    """The numbers that are new, by name."""
    reason: str


class Reflective(BaseProposer):
    """Lets a language model read failures and edit the prompts and numbers that can mend them."""

    def __init__(self, means: Means) -> None:
        """Edit with these means."""
        super().__init__(means)
        self.edits_prompts = means.search.prompts

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether some parent has failures that can be mended."""
        return any(self._readable(trial) for trial in raced(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Edit a parent in the light of some of its failures; frequent kinds of failure are the likelier."""
        parent = pick_parent(trials, rng, fit=self._readable)
        base, shown = policy_of(parent), self._pick(parent, rng)
        slots, names = self._concerned(base, {evidence.kind for evidence in shown})
        failures = [failure.labelled if self.search.routing else failure.text for failure in shown]
        model, space = self.means.model, self.search.space
        edit = await improve(base, slots=slots, numbers=names, space=space, failures=failures, model=model)
        places = {f"prompts.{slot}": text for slot, text in edit.prompts.items()}
        for name, value in edit.numbers.items():
            knob = space.knob(name)
            places[knob.path] = knob.hold(value)
        values = nested(base.values | places)
        changed = [f"{slot} prompt" for slot in edit.prompts]
        changed += [f"{name} {value}" for name, value in edit.numbers.items()]
        change = f"{', '.join(changed) or 'no change'}: {edit.reason}"
        proposal = candidate(parent, change, values, longest_prompt=self.search.longest_prompt)
        if edit.numbers and proposal.policy is not None and space.point_of(proposal.policy) is None:
            return replace(proposal, policy=None, problem="numbers: outside search.space")
        return proposal

    def _numbers(self, policy: MemoryPolicy) -> list[str]:
        here = self.search.space.point_of(policy) if self.search.numbers else None
        return [knob.name for knob, _ in self.search.space.searched if knob.mends and knob.name in (here or {})]

    def _readable(self, trial: Trial) -> list[Evidence]:
        """Return the failures of a trial that a prompt or a number which may change can mend."""
        policy = trial.policy
        if policy is None:
            return []
        return [evidence for evidence in trial.evidence if any(self._concerned(policy, {evidence.kind}))]

    def _concerned(self, policy: MemoryPolicy, kinds: set[FailureKind]) -> tuple[list[str], list[str]]:
        """Return the prompts and the numbers that can mend failures of these kinds; without routing, all."""
        slots, names = self.slots_of(policy), self._numbers(policy)
        if self.search.routing:
            mending = {knob.name for knob in self.search.space.knobs if kinds.intersection(knob.mends)}
            slots = [slot for slot in slots if policy.prompt_kinds[slot] in mending]
            names = [name for name in names if name in mending]
        return slots, names

    def _pick(self, parent: Trial, rng: random.Random) -> list[Evidence]:
        """Pick failures of one or two kinds, drawn by how often each comes; without routing, of any."""
        readable = self._readable(parent)
        if not self.search.routing:
            return rng.sample(readable, min(self.search.failures_shown, len(readable)))
        kinds = sorted({evidence.kind for evidence in readable})
        shares = {} if parent.summary is None else parent.summary.shares
        weights = [share if (share := shares.get(kind, 0.0)) > LEAST_SHARE else LEAST_SHARE for kind in kinds]
        drawn = set(rng.choices(kinds, weights=weights, k=2))
        of_kinds = [evidence for evidence in readable if evidence.kind in drawn]
        return rng.sample(of_kinds, min(self.search.failures_shown, len(of_kinds)))


async def improve(
    policy: MemoryPolicy,
    *,
    slots: Sequence[str],
    numbers: Sequence[str],
    space: Space,
    failures: Sequence[str],
    model: LanguageModel,
) -> Edit:
    """Ask the model to improve some prompts and numbers of a policy in the light of failures.

    An unreadable reply changes nothing, and the reason says so. A prompt or a number that the model was not asked for
    stays as it is. Raises BudgetExhausted or EndpointDown.
    """
    dspy = _dspy()
    engine = _Engine(model, _form(slots, [space.knob(name) for name in numbers]))
    lm = dspy.LM(f"mnemotune/{model.name}", engine=_NoSyncEngine(), async_engine=engine, cache=False)
    texts = policy.prompts.model_dump()
    try:
        # DSPy would keep each call for good: what was asked, what came back, and the inputs
        with dspy.context(lm=lm, adapter=dspy.JSONAdapter(), disable_history=True, trace=None):
            prediction = await dspy.Predict(_signature()).acall(
                purposes={slot: _purpose(space.knob(policy.prompt_kinds[slot])) for slot in slots},
                current_prompts={slot: texts[slot] for slot in slots},
                current_numbers={name: _described(space.knob(name), policy) for name in numbers},
                failures=list(failures),
            )
    except Exception as error:  # noqa: BLE001 - DSPy wraps errors in many types; ours are told apart here
        if engine.stopped is not None:
            raise engine.stopped from None
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Edit({}, {}, f"the proposer's reply was of no use: {first_line[:200]}")
    prompts = {slot: text.strip() for slot, text in prediction.improved_prompts.items() if slot in slots}
    return Edit(
        {slot: text for slot, text in prompts.items() if text and text != texts[slot].strip()},
        {
            name: value
            for name, value in prediction.improved_numbers.items()
            if name in numbers and value != space.knob(name).read(policy.values)
        },
        " ".join(str(prediction.analysis).split())[:300],
    )


def _purpose(prompt: Knob) -> str:
    slots = ", ".join(f"{{{name}}}" for name in Templates.slots()[prompt.name].required)
    return f"This prompt {prompt.meaning}. Its slots {slots} must stay as they are."


def _form(slots: Sequence[str], numbers: Sequence[Knob]) -> ReplyForm:
    """Return the form of a reply to ``_signature``: it may change any of these prompts and numbers."""
    prompts, values = some_of(**dict.fromkeys(slots, TEXT)), some_of(**{knob.name: _schema(knob) for knob in numbers})
    return ReplyForm.of("edit", record(analysis=TEXT, improved_prompts=prompts, improved_numbers=values))


def _schema(number: Knob) -> Schema:
    domain = number.domain
    if isinstance(domain, Range):
        return NUMBER | {"minimum": domain.limits[0], "maximum": domain.limits[1]}
    return one_of(domain.limits if domain else ())


def _described(knob: Knob, policy: MemoryPolicy) -> str:
    """Describe a number: its value, its domain and its meaning."""
    return f"{knob.read(policy.values)} ({knob.domain}): {knob.meaning}"


@cache
def _dspy() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dspy  # imported late: half a second that most commands do not need
    return dspy


@cache
def _signature() -> Any:
    dspy = _dspy()

    class ImprovePolicy(dspy.Signature):  # type: ignore[misc, name-defined]
        """Improve how an assistant with long-term memory works: some of its prompts and numbers.

        Each failure tells the question that was answered wrongly, what the user had said, and what memory held, and at
        which stage memory failed: it was never written, it was lost or not brought back, or it was there and not used.
        Find out what let this happen, and change what is needed so that such failures become rare for all users.
        Keep what works, keep every slot in braces and the format that a prompt asks for, and do not mention single
        users. Change a number only within its bounds.
        """

        purposes: dict[str, str] = dspy.InputField(desc="what each prompt is for")
        current_prompts: dict[str, str] = dspy.InputField(desc="the prompts that may be improved")
        current_numbers: dict[str, str] = dspy.InputField(desc="the numbers that may be changed, with their bounds")
        failures: list[str] = dspy.InputField(desc="wrong answers, with what the user had said and what memory held")
        analysis: str = dspy.OutputField(desc="in one or two sentences: what went wrong, what you change")
        improved_prompts: dict[str, str] = dspy.OutputField(desc="each prompt that you change, by its name, whole")
        improved_numbers: dict[str, int | str] = dspy.OutputField(desc="each number that you change, by its name")

    return ImprovePolicy


class _NoSyncEngine:
    """DSPy wants a synchronous engine beside the asynchronous one; nothing here calls it."""

    def complete(self, request: Any) -> Any:
        raise RuntimeError("the reflective proposer is asynchronous; call it with `acall`")


class _Engine:
    """Lets DSPy speak to one of our language models."""

    def __init__(self, model: LanguageModel, form: ReplyForm) -> None:
        self._model, self._form = model, form
        self.stopped: BudgetExhausted | EndpointDown | None = None

    async def complete(self, request: Any) -> Any:
        lm15 = _dspy().lm15
        system = request.system or ""
        system = system if isinstance(system, str) else "".join(part.text for part in system)
        messages = [Message("system", system)] if system else []
        messages += [Message(m.role, "".join(part.text for part in m.parts)) for m in request.messages]
        try:
            completion = await self._model.complete(Request(tuple(messages), role="propose", form=self._form))
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
