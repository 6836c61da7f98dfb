"""The config of a run: YAML in, frozen values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ..data.errors import MnemotuneError
from ..data.nearest import nearest_note
from ..data.record import Record
from ..data.registry import Registry, UnknownPartError
from ..data.resources import resource
from ..data.yaml_texts import parse_yaml, read_utf8
from ..env.dialogue.compat import AMEMGYM, DEFECTS, Defect
from ..env.dialogue.generation.plan import GenerationPlan, plan_values
from ..env.dialogue.generation.texts import GenerationTexts
from ..env.stored import StoredFigure
from ..policies.files import WINDOW, checked_policy, dump_yaml, load_policy, policy_problems, read_policy
from ..policies.knob import Choices, each_once
from ..policies.lm.providers import ModelsConfig
from ..policies.lm.refusals import excerpt
from ..policies.memory.backends import MEMORIES
from ..policies.policy import MemoryPolicy
from ..policies.prompts import Templates, TextSet
from ..policies.space import BUILTIN, Space, limits_under, prompt_slots
from .objectives import OBJECTIVES, Objective
from .proposer_kinds import PROPOSERS, ProposerKind
from .runners import Workers
from .stores import Storage, Tracking

Item = TypeVar("Item")

NO_VALUES: Mapping[str, Any] = MappingProxyType({})
Positive = Annotated[int, Field(ge=1, lt=2**53)]
"""No more than every program reads from JSON as it is."""
NotNegative = Annotated[int, Field(ge=0, lt=2**53)]
Choice = Annotated[tuple[Item, ...], Field(min_length=1), AfterValidator(each_once)]
"""One at least, each once."""

SLOTS: TypeAdapter[tuple[str, ...]] = TypeAdapter(Choices(prompt_slots()).annotation)
MostStored = dict[StoredFigure, Annotated[float, Field(ge=0)]]


def _registered(registry: Registry[Any], name: str) -> str:
    try:
        registry.get(name)
    except UnknownPartError as error:
        raise ValueError(str(error)) from None
    return name


def _space_within(limits: Any) -> Space:
    space = Space.within(limits)
    for name in space.limits.get("backends", ()):
        _registered(MEMORIES, name)
    return space


Limits = Annotated[Space, PlainValidator(_space_within), PlainSerializer(lambda space: space.limits)]
ProposerName = Annotated[str, AfterValidator(partial(_registered, PROPOSERS))]
ObjectiveName = Annotated[str, AfterValidator(partial(_registered, OBJECTIVES))]


def _loaded(texts: type[TextSet]) -> BeforeValidator:
    """Read texts from a YAML file or as given; those that are left out are the bundled set's."""
    return BeforeValidator(lambda given: texts.load(Path(given)) if isinstance(given, str) else texts.completed(given))


def _expanded(names: Any) -> Any:
    """Return the names of AMemGym's defects; ``amemgym`` is all of them."""
    names = [names] if isinstance(names, str) else names
    return DEFECTS if names == [AMEMGYM] else names


class ConfigError(MnemotuneError, ValueError):
    """Say what is wrong with a config, naming the file and the key."""


class SplitSizes(Record):
    """Users in each split; the splits are disjoint."""

    train: Positive
    validation: Annotated[int, Field(ge=2)]
    test: Annotated[int, Field(ge=2)]
    seed: NotNegative = 0
    """Deals the users; kept apart from the search's seed, so that searches share their test users."""


class Rounds(Record):
    """Rounds of a session, as in AMemGym's env config."""

    init: Positive = 1
    update: Positive = 2


class BudgetLimits(Record):
    """What the whole run may spend over all roles, the final test included; None is no limit."""

    calls: Positive | None = None
    tokens: Positive | None = None
    usd: Annotated[float, Field(gt=0)] | None = None
    seconds: Annotated[float, Field(gt=0)] | None = None


class Screening(Record):
    """How candidates are ranked before any episode is spent on them: by what MemRM says that they would still know."""

    model: str = "tiny"
    """The bundled checkpoint, or a checkpoint's folder."""
    users: Positive = 1
    """Train users whose recorded talks candidates listen to."""
    drop: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of each generation's candidates that does not race."""
    least_correlation: Annotated[float, Field(ge=-1, le=1)] = 0.2
    """Rank correlation of forecasts and raced scores below which nothing is dropped any more."""


class SearchConfig(Record):
    """The evolution loop."""

    seed: NotNegative = 0
    generations: NotNegative = 10
    """0 searches nothing: the seed policy goes to the sealed test."""
    candidates: Positive = 3
    """Candidates per generation; the first has ``broad_start``, where that is more and points are ``spread``."""
    broad_start: NotNegative = 16
    """Candidates of the first generation: they look everywhere, as what is good near the seed policy says little of
    the rest of the space, and race together; 0 does without."""
    proposers: Choice[ProposerName] = ("known", "spread", "reflective", "gp", "merge")
    """Who makes candidates; those whose candidates come further make more of them."""
    prompts: bool = True
    """Whether prompts evolve."""
    slots: Annotated[tuple[str, ...], AfterValidator(SLOTS.validate_python)] = prompt_slots()
    """The prompts that may evolve, where a policy uses them."""
    numbers: bool = True
    """Whether numbers and structure evolve."""
    failures_shown: Positive = 6
    """Failures that the reflective proposer is shown."""
    routing: bool = True
    """Whether the reflective proposer is told at which stage memory failed, and shown what such failures belong to;
    else it is shown failures of any stage, untold, and all that may change."""
    longest_prompt: Positive = 6000
    """Most characters of an evolved prompt; a longer one is refused."""
    racing: bool = True
    """Whether a candidate is left as soon as it has lost on some of the train users; else it meets all of them."""
    race_block: Positive = 4
    """Train users at the first two looks at a race: a third of their lives, then all. Each next is at twice as many."""
    screening: Screening | None = None
    """None races every candidate."""
    off_policy: bool = False
    """Whether candidates listen to the seed policy's recorded talks instead of talking; never in the sealed test."""
    acceptance: Literal["validation", "train"] = "validation"
    """validation: what is better on train users must be so surely on validation users; train: the best mean wins."""
    objective: ObjectiveName = "score"
    """What the policy that goes to the sealed test as evolved has most of: ``score``, also with what memory shows
    (``score-and-evidence``) or what it shows alone (``evidence-alone``), or, among the policies that are surely better
    than the seed policy, ``evidence`` or score for what it costs (``score-per-token``, ``-call`` or ``-dollar`` of a
    turn, or ``-byte`` of memory)."""
    most_stored: MostStored = Field(default_factory=dict)
    """Most that memory may hold at the end of a task, mean over train users: ``lines``, ``bytes``, the share of lines
    that is ``junk``, ``duplicates`` or ``stale``, and of facts to be forgotten those ``unforgotten``, of others those
    ``taken_along``. A candidate that holds more cannot lead."""
    veto: bool = True
    """Whether a candidate is refused when it gets surely worse on a topic or a stretch of periods."""
    space: Limits = Field(default_factory=Space)
    """Where numbers and structure are searched, by the knobs' keys: choices, or a lower and an upper bound."""
    budget: BudgetLimits = BudgetLimits()

    @property
    def aim(self) -> Objective:
        """What the objective's name stands for."""
        return OBJECTIVES.get(self.objective)

    @property
    def at_work(self) -> dict[str, ProposerKind]:
        """The proposers that have something to change, by name."""
        kinds = ((name, PROPOSERS.get(name)) for name in self.proposers)
        return {name: k for name, k in kinds if (self.numbers and k.numbers) or (self.prompts and k.prompts)}

    @property
    def changes_numbers(self) -> bool:
        """Whether any proposer at work changes numbers and structure."""
        return self.numbers and any(kind.numbers for kind in self.at_work.values())

    @property
    def broad(self) -> int:
        """Candidates of a broad start; 0 where the first generation is as the others."""
        spreads = any(kind.spreads for kind in self.at_work.values())
        return self.broad_start if spreads and self.broad_start > self.candidates else 0

    @property
    def planned(self) -> int:
        """Candidates of all generations, where no budget ends them."""
        first = self.broad or self.candidates
        return first + (self.generations - 1) * self.candidates if self.generations else 0

    @model_validator(mode="after")
    def _check(self) -> SearchConfig:
        if not self.at_work:
            raise ValueError("proposers: none of them may change anything; allow `prompts` or `numbers`")
        if self.off_policy and self.aim.picks:
            raise ValueError(
                "objective: off_policy, nobody replies; only a policy of which a turn's cost is known can be picked; "
                f"{self.objective} needs `off_policy: false`"
            )
        return self


class GenerationConfig(GenerationPlan):
    """New users made with ``model``; nothing else of a config but endpoint and ``compat`` matters to them."""

    texts: Annotated[GenerationTexts, _loaded(GenerationTexts)] = Field(default_factory=GenerationTexts.bundled)
    """A YAML file, or the texts; what it leaves out is the bundled set's."""
    budget: BudgetLimits = BudgetLimits()

    @property
    def plan(self) -> GenerationPlan:
        """The numbers alone."""
        return GenerationPlan(**{name: getattr(self, name) for name in GenerationPlan.model_fields})


class Config(ModelsConfig):
    """Everything that a run depends on."""

    track: str = "dialogue"
    """The kind of task: ``dialogue``, ``codeqa``, ``conversations``, ``research``, ``swe``, ``tools``, ``web``, or what
    another package registers. After a colon who acts there: ``tools:model`` has an agent that plans by itself."""
    track_options: dict[str, Any] = {}
    """What a track wants to know besides: ``judge`` of ``conversations``, or what another package's asks for."""
    data: str
    """What the track loads its tasks from."""
    test_data: str | None = None
    """What it loads the sealed test's tasks from; None is ``data``. The two share no group: a policy can be evolved on
    generated users, for example, and tested on real ones."""
    splits: SplitSizes
    context_tokens: Positive | None = None
    """The most that memory puts before the model in one call, memories and buffer together, in tokens of 4 bytes; the
    same for every policy. None is no limit, as in AMemGym; then hoarding wins."""
    rounds: Rounds = Rounds()
    templates: Annotated[Templates, _loaded(Templates)] = Field(default_factory=Templates.bundled)
    """The environment's texts and those that policies start from: a YAML file, or the texts; what it leaves out is the
    bundled set's."""
    compat: Annotated[tuple[Defect, ...], BeforeValidator(_expanded)] = ()
    """AMemGym's defects to reproduce, by name; ``amemgym`` is all of them."""
    seed_policy: MemoryPolicy
    """Where the search starts: a preset's name, a file, or the policy itself."""
    baselines: tuple[str, ...] = (WINDOW, "rag", "awe", "awi")
    """Presets or files that the sealed test compares with; the window is always among them."""
    search: Annotated[SearchConfig, Field(validate_default=True)] = SearchConfig()
    generation: GenerationConfig | None = None
    """For `data generate`; None is its defaults. A search has no use for it."""
    workers: Workers = Workers()
    """Where episodes are played; the results are the same everywhere."""
    storage: Storage | None = None
    """Where the study and the replies are kept: the URL of a PostgreSQL database; None is the run folder."""
    tracking: Annotated[Tracking | None, BeforeValidator(lambda given: None if given == "none" else given)] = Tracking()
    """``none`` keeps MLflow out."""

    @property
    def compared(self) -> dict[str, MemoryPolicy]:
        """The baselines by name, the window first. Raises PolicyError when one cannot be read."""
        names = dict.fromkeys([WINDOW, *self.baselines])
        return {name: load_policy(name, templates=self.templates) for name in names}

    @field_validator("seed_policy", mode="before")
    @classmethod
    def _load_policy(cls, given: Any, info: ValidationInfo) -> MemoryPolicy:
        templates = info.data.get("templates")
        try:
            if isinstance(given, str):
                policy = load_policy(given, templates=templates)
            else:
                policy = checked_policy(given, where="seed_policy", templates=templates)
        except UnknownPartError as error:
            raise ValueError(f"backend: {error}") from None
        if policy.oracle:
            raise ValueError("an oracle is told what will be asked; it can be a baseline, and nothing to start from")
        return policy

    @field_validator("search", mode="before")
    @classmethod
    def _fit_space(cls, given: Any, info: ValidationInfo) -> Any:
        """Let the budget bound the search where the config does not."""
        values = {} if given == SearchConfig() else given
        tokens = info.data.get("context_tokens")
        if tokens is None or not isinstance(values, dict) or not isinstance(values.get("space", {}), dict):
            return given
        return values | {"space": limits_under(tokens) | values.get("space", {})}

    @field_validator("search")
    @classmethod
    def _fit_memory(cls, given: SearchConfig, info: ValidationInfo) -> SearchConfig:
        """Let candidates have the seed policy's backend where none is named."""
        seed = info.data.get("seed_policy")
        backend = getattr(seed, "backend", None) or BUILTIN
        return given.model_copy(update={"space": replace(given.space, backend=backend)})

    @model_validator(mode="after")
    def _check(self) -> Config:
        if "buffer_share" in self.search.space.limits and self.context_tokens is None:
            raise ValueError("search.space.buffer_share: has no effect without context_tokens; leave it out")
        for knob in self.search.space.idle:
            only = knob.when.words if knob.when else ""
            raise ValueError(f"search.space.{knob.limited_by}: has an effect only {only}; allow that, or leave it out")
        if self.seed_policy.evolution is not None and self.search.generations:
            raise ValueError(
                "seed_policy: a policy that rewrites its own prompts is a baseline; the search starts from a plain one"
            )
        return self


def load_config(path: str | Path, *, overrides: Sequence[str] = (), defaults: Mapping[str, Any] = NO_VALUES) -> Config:
    """Read a config; ``overrides`` are ``key=value`` with dots in the key and YAML in the value.

    ``defaults`` stand in for keys that the file leaves out. Raises ConfigError naming the file and the key.
    """
    return parse_config(_read(path), where=str(path), overrides=overrides, defaults=defaults)


def parse_config(
    text: str, *, where: str, overrides: Sequence[str] = (), defaults: Mapping[str, Any] = NO_VALUES
) -> Config:
    """Read a config from YAML text; ``where`` is named in errors."""
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: must be a mapping of keys to values")
    values = {**defaults, **_own_keys(values)}
    for override in overrides:
        if override.startswith("seed_policy.") and isinstance(values.get("seed_policy"), str):
            values["seed_policy"] = read_policy(values["seed_policy"])
        values = _override(values, override)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {line}" for line in policy_problems(error, Config))) from None


def dump_config(config: Config) -> str:
    """Return the resolved config as YAML that ``parse_config`` reads back to an equal one."""
    return dump_yaml(config.model_dump(mode="json"))


def _own_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Return a config's values; AMemGym's env config gives the rounds of an evaluation and the plan of a generation."""
    if "num_rounds_init" not in values or "num_rounds_update" not in values:
        return values
    rounds = {"init": values["num_rounds_init"], "update": values["num_rounds_update"]}
    return {"rounds": rounds, "generation": plan_values(values)}


def _read(path: str | Path) -> str:
    file = Path(path)
    source = file if file.is_file() else resource("configs", file.name)
    if not source.is_file():
        bundled = sorted(entry.name for entry in resource("configs").iterdir() if entry.name.endswith(".yaml"))
        close = nearest_note(file.name, bundled)
        raise ConfigError(f"{path}: no such file or bundled config{close}; bundled: {', '.join(bundled)}")
    try:
        return read_utf8(source)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _override(values: Mapping[str, Any], override: str) -> dict[str, Any]:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {override}: write key=value, for example search.budget.calls=20000")
    try:
        return _with(values, key, parse_yaml(text))
    except RecursionError:
        raise ConfigError(f"--set {excerpt(override)}: the key is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"--set {excerpt(override)}: the value {error}") from None


def _with(values: Any, key: str, value: Any) -> dict[str, Any]:
    """Return values with another value under a dotted key; what is no mapping there gives way to one."""
    first, dot, rest = key.partition(".")
    values = values if isinstance(values, Mapping) else {}
    return {**values, first: _with(values.get(first), rest, value) if dot else value}
