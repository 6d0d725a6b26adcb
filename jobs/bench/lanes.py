"""Say which lanes of the gate find each fault that is kept, and which test of a lane does.

``reach`` runs the tests of a lane and notes what each reaches. ``find`` puts each fault into the
code and has the tests that reach it run, the quick ones first, until one fails: in one session of
Spark where functions alone differ, in a process of its own elsewhere. ``table`` shows what was
found. The lanes are the stages of ``.ci/check.py``. Needs ``coverage``.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any

import typer

from mutants import ROOT, Fault, broken_text, copied, kept_faults, place_of

app = typer.Typer(add_completion=False, rich_markup_mode=None)

#: Where it is noted what was reached and found.
NOTES = ROOT / ".venv" / "lanes"

Lane = Annotated[str, typer.Argument(help="A stage of check.py that runs tests.")]
Only = Annotated[str, typer.Option(help="Only faults with this text.")]
Budget = Annotated[float, typer.Option(help="Seconds of tests that a fault is given in a lane.")]

#: What runs in other processes of a session, which have imported it before it is replaced.
_ELSEWHERE = ("streaming/", "data_source/", "processing/", "operators/")


def stage(name: str) -> Any:
    """Return a stage of the gate: its command, and its environment."""
    spec = spec_from_file_location("check", ROOT / ".ci" / "check.py")
    assert spec is not None  # noqa: S101 - for the type checker: the file is there
    assert spec.loader is not None  # noqa: S101 - as above
    module = module_from_spec(spec)
    sys.modules["check"] = module
    spec.loader.exec_module(module)
    return module.stage(name)


def _environment(tree: Path, lane: Any, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(tree), str(tree / "jobs" / "bench")])
    kept = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **lane.env, **kept, **more}


@app.command()
def reach(name: Lane) -> None:
    """Run the tests of a lane, and note what each of them reaches."""
    lane = stage(name)
    shutil.rmtree(NOTES / name, ignore_errors=True)
    (NOTES / name).mkdir(parents=True)
    with copied(ROOT) as tree:
        env = _environment(tree, lane, REACHED=str(NOTES / name / "reach"))
        subprocess.run([*lane.command, "-p", "reaching"], cwd=tree, env=env, check=False)  # noqa: S603
        _note_reach(NOTES / name, tree)


def _note_reach(place: Path, tree: Path) -> None:
    """Write, for each test, its seconds, its views of SQL and the lines that it reaches."""
    from coverage import CoverageData  # noqa: PLC0415 - this command alone needs it

    tests: dict[str, dict[str, Any]] = {}
    for file in place.glob("reach.*.json"):
        told = [json.loads(line) for line in file.read_text().splitlines()]
        tests |= {t["test"]: {**t, "lines": {}} for t in told}
    for file in place.glob("reach.*.coverage"):
        data = CoverageData(str(file))
        data.read()
        for measured in data.measured_files():
            module = str(Path(measured).relative_to(tree / "spark_queue"))
            for line, contexts in data.contexts_by_lineno(measured).items():
                for test in {*contexts} & tests.keys():
                    tests[test]["lines"].setdefault(module, []).append(line)
    (place / "tests.json").write_text(json.dumps(tests))


@app.command()
def find(name: Lane, only: Only = "", budget: Budget = 30.0) -> None:
    """Break the code in each known way, and have the tests of a lane that reach it run."""
    lane, tests = stage(name), json.loads((NOTES / name / "tests.json").read_text())
    faults = [fault for fault in kept_faults() if only in fault.name]
    with copied(ROOT) as tree:
        tasks = dict(enumerate(_task(tree, fault, tests, budget) for fault in faults))
        found = dict(_answers(tree, lane, tasks))
    told = {fault.name: found.get(number, "") for number, fault in enumerate(faults)}
    notes = NOTES / f"{name}.json"
    before = json.loads(notes.read_text()) if notes.exists() else {}
    notes.write_text(json.dumps({**before, **told}, indent=0))
    for fault, test in told.items():
        typer.echo(f"{'found' if test else 'missed':8}{fault}  [{test}]")
    typer.echo(f"{name}: {sum(map(bool, told.values()))} of {len(told)} found")


def _task(
    tree: Path, fault: Fault, tests: Mapping[str, Any], budget: float
) -> dict[str, Any] | None:
    place = place_of(tree, fault)
    if place is None:
        return None
    file = tree / "spark_queue" / fault.file
    old, source = file.read_text(), broken_text(file.read_text(), place, fault)
    names = list(_within(budget, _reaching(fault, old, source, tests)))
    return {"file": str(file), "source": source, "tests": names, "cold": _is_cold(fault)}


def _is_cold(fault: Fault) -> bool:
    return fault.where.startswith(_ELSEWHERE)


def _reaching(fault: Fault, old: str, new: str, tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tests that reach what a fault changes, the quick ones first."""
    if fault.file.endswith(".sql"):
        before = old[: old.index(fault.old)] + fault.old
        view = re.findall(r"^-- (\w+)\(", before, re.MULTILINE)[-1]
        found = [test for test in tests.values() if view in test["views"]]
    else:
        lines = _changed(old, new)
        found = [test for test in tests.values() if lines & {*test["lines"].get(fault.file, ())}]
    return sorted(found, key=lambda test: float(test["seconds"]))


def _changed(old: str, new: str) -> set[int]:
    """Return the lines of a source that another has not, with those around what is added."""
    matcher = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    changed: set[int] = set()
    for tag, first, last, _, _ in matcher.get_opcodes():
        if tag != "equal":
            changed |= {*range(first + 1, last + 1)} or {first, first + 1}
    # A statement of several lines is counted at its first.
    return changed | {line - back for line in changed for back in (1, 2)}


def _within(budget: float, tests: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for number, test in enumerate(tests):
        budget -= test["seconds"]
        if budget < 0 and number > 0:
            return
        yield test["test"]


def _answers(
    tree: Path, lane: Any, tasks: Mapping[int, dict[str, Any] | None]
) -> Iterator[tuple[int, str]]:
    """Yield the test that noticed each fault, by one session for all and one for each cold one."""
    todo = {n: task for n, task in tasks.items() if task is not None and task["tests"]}
    warm = {n: task for n, task in todo.items() if not task["cold"]}
    while warm:
        answers = _play(tree, lane, warm)
        if not answers:
            raise typer.Exit(2)
        for number, by in answers.items():
            task = warm.pop(number)
            if by is None:
                task["cold"] = True
            else:
                yield number, by
    for number, task in todo.items():
        if task["cold"]:
            yield number, _alone(tree, lane, task)


def _play(tree: Path, lane: Any, tasks: Mapping[int, dict[str, Any]]) -> dict[int, str | None]:
    asked, told = NOTES / "asked.jsonl", NOTES / "told.jsonl"
    lines = [json.dumps({**task, "number": number}) for number, task in tasks.items()]
    asked.write_text("\n".join(lines))
    told.unlink(missing_ok=True)
    env = _environment(tree, lane, SWAPPING=str(asked), SWAPPED=str(told))
    names = {test for task in tasks.values() for test in task["tests"]}
    command = [*_alone_command(), "-p", "swapping", *sorted(names)]
    subprocess.run(command, cwd=tree, env=env, check=False, capture_output=True)  # noqa: S603
    answers = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    return {answer["number"]: answer["by"] for answer in answers}


def _alone(tree: Path, lane: Any, task: dict[str, Any]) -> str:
    """Run the tests of a fault in a process of their own."""
    file = Path(task["file"])
    old = file.read_text()
    file.write_text(task["source"])
    try:
        command, env = [*_alone_command(), "-x", *task["tests"]], _environment(tree, lane)
        done = subprocess.run(  # noqa: S603 - pytest, with tests of ours
            command, cwd=tree, env=env, check=False, capture_output=True, text=True, timeout=900
        )
    except subprocess.TimeoutExpired:
        return f"{task['tests'][0]} (did not end)"
    finally:
        file.write_text(old)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" ")[1] if done.returncode == 1 and failed else ""


def _alone_command() -> list[str]:
    words = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    return [*words, "-p", "unshrunk", "--hypothesis-seed=0"]


@app.command()
def table() -> None:
    """Show for each fault which lanes find it."""
    lanes = {file.stem: json.loads(file.read_text()) for file in sorted(NOTES.glob("*.json"))}
    typer.echo("\t".join(["fault", *lanes]))
    for fault in kept_faults():
        marks = ["x" if found.get(fault.name) else "" for found in lanes.values()]
        typer.echo("\t".join([fault.name, *marks]))


if __name__ == "__main__":
    app()
