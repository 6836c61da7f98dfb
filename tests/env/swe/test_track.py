"""The swe track passes the tests of every track, and rewards a repair alone."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.data.folded import FoldedTask
from mnemotune.data.swe.task import Step, SweTask, swe_task
from mnemotune.data.task import Task, TaskError
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.outside import Outside
from mnemotune.env.planned import Answers
from mnemotune.env.swe.desk import SweDesk, course_of, rewarded, run_of_tests
from mnemotune.env.swe.track import SweTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates

pytestmark = pytest.mark.usefixtures("engine")
SOURCE = "generated:1@5"


@pytest.mark.exhaustive("policy")
class TestSweTrack(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> SweTrack:
        return SweTrack(Templates.bundled())

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return SOURCE

    @pytest.fixture(scope="class")
    @classmethod
    def tasks(cls, track: SweTrack, source: str) -> Sequence[Task]:
        return track.load(source)[:2]

    @pytest.fixture
    def cast(self, outside: Outside) -> Cast:
        return Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(), outside=outside)


@pytest.fixture(scope="module")
def track() -> SweTrack:
    return SweTrack(Templates.bundled())


@pytest.fixture(scope="module")
def task(track: SweTrack) -> SweTask:
    return swe_task(track.load(SOURCE)[0])


def right(step: Step) -> dict[str, str | None]:
    return {slot.check: step.right[slot.name] for slot in step.slots}


async def played(desk: SweDesk, task: SweTask, answers: Answers) -> list[str]:
    """Do all steps, with these answers in place of right ones; return what was seen."""
    seen = []
    for step in task.steps:
        given = {check: answers.get(check, value) for check, value in right(step).items()}
        seen += [message.content for _, message in await desk.do(step, given)]
    return seen


SHIPPED = sorted({task.group for task in SweTrack(Templates.bundled()).load("repairs")})


@pytest.mark.exhaustive("bug")
@pytest.mark.parametrize("bug", SHIPPED)
async def test_the_plan_repairs_a_bug_and_wrong_answers_do_not(track: SweTrack, outside: Outside, bug: str) -> None:
    task = swe_task(track.load("repairs", groups=[bug])[0])
    desk = track.desk(task, outside)
    await played(desk, task, {})
    assert await desk.reward() == 1
    for answers in (dict.fromkeys(task.checks), {random.Random(bug).choice(list(task.checks)): "wrong"}):
        desk = track.desk(task, outside)
        await played(desk, task, answers)
        assert await desk.reward() == 0
        await desk.aclose()


@pytest.mark.slow
@pytest.mark.exhaustive("bug")
@pytest.mark.parametrize("bug", SHIPPED)
async def test_every_shipped_task_fails_before_its_repair_and_passes_after_it(
    track: SweTrack, outside: Outside, bug: str, tmp_path: Path
) -> None:
    for task in map(swe_task, track.load("repairs", groups=[bug])):
        await check_repair(task, outside, tmp_path / task.id)


@pytest.mark.slow
@pytest.mark.exhaustive("bug")
@pytest.mark.parametrize("bug", SHIPPED)
async def test_a_wrong_answer_to_any_slot_of_a_shipped_task_fails(
    track: SweTrack, outside: Outside, bug: str, request: pytest.FixtureRequest
) -> None:
    share = 1 if request.config.getoption("--all") else 3
    for place, task in enumerate(map(swe_task, track.load("repairs", groups=[bug]))):
        for check in list(task.checks)[place % share :: share]:
            desk = track.desk(task, outside)
            await played(desk, task, {check: "wrong"})
            assert await desk.reward() == 0
            await desk.aclose()


async def check_repair(task: SweTask, outside: Outside, folder: Path) -> None:
    """Each test that should fail does so before the reference repair, and the others do not; after it, none does."""
    before = course_of(task, outside)
    for name in task.fail_to_pass:
        assert await rewarded(replace(task, fail_to_pass=(name,), pass_to_pass=()), before) == 0, name
    assert await rewarded(replace(task, fail_to_pass=()), before) == 1
    await before.aclose()
    after = course_of(replace(task, files=repaired(task, folder)), outside)
    assert await rewarded(task, after) == 1
    await after.aclose()


def repaired(task: SweTask, folder: Path) -> dict[str, str]:
    """Return the repository after the reference patch, as git applies it."""
    for path, text in task.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="")
    subprocess.run(["git", "apply", "-"], cwd=folder, input=task.patch.encode(), check=True)
    return {path: (folder / path).read_bytes().decode() for path in task.files}


async def test_a_desk_that_was_forked_goes_on_by_itself(track: SweTrack, task: SweTask, outside: Outside) -> None:
    desk, elsewhere = track.desk(task, outside), Outside()
    half = len(task.steps) // 2
    for step in task.steps[:half]:
        await desk.do(step, right(step))
    fork = desk.fork(elsewhere)
    for step in task.steps[half:]:
        assert await fork.do(step, right(step)) == await desk.do(step, right(step))
    assert await fork.reward() == await desk.reward() == 1
    await fork.aclose()
    await desk.aclose()
    await elsewhere.aclose()


async def test_the_problem_comes_first_and_every_piece_begins_with_its_command(
    track: SweTrack, task: SweTask, outside: Outside
) -> None:
    desk = track.desk(task, outside)
    kinds = []
    for number, step in enumerate(task.steps):
        seen = await desk.do(step, right(step))
        assert len(seen) <= track.most_seen(task, step)
        kinds.append([kind for kind, _ in seen])
        observed = [message.content for kind, message in seen if kind == "observe"]
        assert all(text.startswith(f"$ {step.gold[:60]}") for text in observed)
        assert "say" not in kinds[-1] or number == 0
    assert kinds[0][0] == "say"
    await desk.aclose()


async def test_tests_are_as_they_were_when_it_comes_to_the_reward(
    track: SweTrack, task: SweTask, outside: Outside
) -> None:
    course = course_of(task, outside)
    await course.act("rm -rf tests; printf 'import sys\\nsys.exit(0)\\n' > run_tests.py")
    assert await rewarded(task, course) == 0
    await course.aclose()


def test_tests_that_a_row_brings_replace_what_an_agent_has_made_of_them(task: SweTask, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    git("init", "-q")
    (tmp_path / "test old.txt").write_text("old\n")
    git("add", "-A")
    git("commit", "-q", "-m", "before")
    (tmp_path / "test old.txt").write_text("new\n")
    (tmp_path / "test_more.txt").write_text("more\n")
    git("add", "-A")
    row = replace(task, test_patch=git("diff", "--cached"), test_command="cat", fail_to_pass=("test_more.txt",))
    git("reset", "-q", "--hard")
    for text in ("weakened\n", "old\n"):
        (tmp_path / "test old.txt").write_text(text)
        (tmp_path / "test_more.txt").write_text(text)
        command = run_of_tests(replace(row, pass_to_pass=("test old.txt",)))
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "more\nnew\n"
    git("commit", "-q", "-a", "-m", "weakened")
    for base, shown in ((git("rev-parse", "HEAD~1").strip(), 0), ("0123456", 1)):
        command = run_of_tests(replace(row, pass_to_pass=("test old.txt",), base=base))
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, "test old.txt" in git("ls-files")) == (shown, True), "a base that is not there is HEAD"
    command = run_of_tests(replace(row, pass_to_pass=("test old.txt",), base=git("rev-parse", "HEAD~1").strip()))
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "more\nnew\n", "also after a commit of the agent's"


SPOILT = (
    "echo weak >> tests/größe.txt; echo weak >> tests/old.txt",
    "rm tests/größe.txt; mkdir -p tests/größe.txt/sub tests/new.txt; chmod 0 tests/größe.txt/sub tests",
    "ln -sf ../kept.txt tests/größe.txt; ln -s ../kept.txt tests/new.txt; rm tests/old.txt; git add -A",
    "rm -r tests; echo x > tests",
    "mv tests moved; ln -s moved tests",
)


@pytest.mark.parametrize("spoil", SPOILT)
def test_tests_that_a_row_renames_or_names_in_other_letters_are_put_back_whatever_stands_there(
    task: SweTask, tmp_path: Path, spoil: str
) -> None:
    who = "-c user.name=a -c user.email=a@b -c commit.gpgsign=false"

    def done(command: str) -> str:
        return subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    done("mkdir tests; echo old > tests/größe.txt; seq 9 > tests/old.txt; echo kept > kept.txt")
    done(f"git init -q; git add -A; git {who} commit -qm before")
    done("echo new >> tests/größe.txt; git mv tests/old.txt tests/new.txt; git add -A")
    patch = done("git diff --cached -M; git reset -q --hard")
    assert '"a/tests/gr\\303' in patch
    assert "+++ b/tests/new.txt" not in patch
    row = replace(task, test_patch=patch, test_command="cat", fail_to_pass=("tests/größe.txt",), pass_to_pass=())
    done(spoil)
    assert done(run_of_tests(row)) == "old\nnew\n"
    assert done("cat tests/new.txt kept.txt; ls tests") == done(
        "seq 9; echo kept; printf 'größe.txt\nnew.txt\n' | sort"
    )


FILES = {"run_tests.py": "", "tests/a/cases.py": "A\n", "tests/more.py": "B\n", "kept.py": "kept\n"}


@pytest.mark.parametrize(
    "spoil",
    [
        "chmod a-w tests/a/cases.py; chmod -R a-w .",
        "rm tests/more.py; mkdir -p tests/more.py/sub/sub; chmod 0 tests/more.py/sub tests/more.py",
        "rm -r tests; echo x > tests",
        "ln -sf ../kept.py tests/more.py; rm -r tests/a; ln -s /tmp tests/a",
    ],
)
async def test_files_of_tests_are_put_back_whatever_stands_there(task: SweTask, outside: Outside, spoil: str) -> None:
    spoilt = replace(task, files=FILES)
    course = course_of(spoilt, outside)
    await course.act(spoil)
    assert await rewarded(spoilt, course) == 1
    shown = await course.act(
        "cat tests/a/cases.py tests/more.py kept.py; find tests /tmp -type f | sort; find . -type l"
    )
    assert shown == "A\nB\nkept\ntests/a/cases.py\ntests/more.py"
    await course.aclose()


async def test_tests_that_say_much_and_pass_are_rewarded(task: SweTask, outside: Outside) -> None:
    talkative = "print('x' * 1_200_000)\n"
    course = course_of(replace(task, files={"run_tests.py": talkative}), outside)
    assert await rewarded(replace(task, files={"run_tests.py": talkative}), course) == 1
    await course.aclose()


@pytest.mark.parametrize("passing", [True, False])
async def test_tests_may_be_more_than_a_command_can_name(task: SweTask, outside: Outside, passing: bool) -> None:
    count = 4_000
    names = tuple(f"tests/test_many.py::test_it's[{place} é{'-' * 60}]" for place in range(count))
    noting = "import sys\nopen('ran.txt', 'a').write(''.join(f'{name}\\n' for name in sys.argv[1:]))\n"
    failing = "" if passing else f"sys.exit({names[-1]!r} in sys.argv)\n"
    many = replace(task, files={"run_tests.py": noting + failing}, fail_to_pass=names[:1], pass_to_pass=names[1:])
    course = course_of(many, outside)
    assert await rewarded(many, course) == passing
    assert (
        await course.act("wc -l < ran.txt; uniq ran.txt | wc -l; tail -n 1 ran.txt") == f"{count}\n{count}\n{names[-1]}"
    )
    await course.aclose()


async def test_files_of_tests_may_be_more_than_a_command_can_hold(task: SweTask, outside: Outside) -> None:
    rng = random.Random(0)
    text = "".join(f"It's {rng.randbytes(30).hex()}, é.\n" for _ in range(6_000))
    large = replace(task, files={"run_tests.py": "", "tests/text.txt": text})
    course = course_of(large, outside)
    await course.act("mv tests/text.txt before.txt")
    assert await rewarded(large, course) == 1
    assert await course.act("cmp before.txt tests/text.txt && wc -l < tests/text.txt") == "6000"
    await course.aclose()


async def test_a_weakened_copy_of_the_tests_elsewhere_is_not_run_in_their_place(
    task: SweTask, outside: Outside
) -> None:
    cases = next(path for path in task.files if path.startswith("tests/") and path.endswith(".py"))
    course = course_of(task, outside)
    weakened = "".join(f"def {name}(equal): pass\n" for name in (*task.fail_to_pass, *task.pass_to_pass))
    await course.act(f"printf %s {shlex.quote(weakened)} > {cases.removeprefix('tests/')}")
    assert await rewarded(task, course) == 0
    await course.aclose()


class Knowing(LanguageModel):
    """Knows the right answer to each question."""

    name = "knowing"

    def __init__(self, task: SweTask) -> None:
        self.right = {check.text: task.right(check) for check in task.checks.values()}

    async def complete(self, request: Request) -> Completion:
        asked = request.messages[-1].content
        value = next(value for text, value in self.right.items() if text in asked)
        return Completion(json.dumps({"value": value}), Usage(1, 1))


async def test_an_evaluation_tells_the_rewards(track: SweTrack, task: SweTask, outside: Outside) -> None:
    for model, reward in ((Knowing(task), 1.0), (EmbeddedModel(), 0.0)):
        cast = Cast(model, model, LexicalEmbedder(), context_tokens=300, outside=outside)
        evaluation = await Evaluator(track, cast).evaluate(load_policy("window"), [task])
        assert evaluation.extras == {"agent": "planned", "reward": reward, "rewards": {task.id: reward}}
    assert evaluation.mean("accuracy") == evaluation.mean("floor") == 0


def test_tasks_without_a_plan_are_for_the_other_agent(
    track: SweTrack, task: SweTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = replace(task, steps=(), checks={}, facts={})
    monkeypatch.setattr("mnemotune.env.swe.track.load_swe", lambda *_, **__: [FoldedTask.of(bare)])
    with pytest.raises(TaskError, match=f"{bare.id} has no plan.*swe:model"):
        track.load("rows:some.jsonl")
