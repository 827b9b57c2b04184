"""Checks that bugs are found: builds dlock with each of bugs/*.patch, and runs chaos on it. Those
that need a moment which chaos hardly ever meets are left to a test of the contract suite, or to the
simulation, which has to find most of them as well."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LONGEST = 120.0  # seconds within which each bug has to be found
PARTS = ("CMakeLists.txt", "cmake", "src", "tests", "man", "completions", "examples", "LICENSE")


def finders_of(patch: Path) -> list[tuple[str, str]]:
    """Returns what finds a bug: "Store" and the store for chaos, "Simulation" and the store there, or
    "Test" and a filter of tests."""
    found = re.findall(r"^(Store|Simulation|Test): (.+)\n", patch.read_text(), re.MULTILINE)
    if not found:
        raise SystemExit(f"chaos: {patch.name} does not begin with Store:, Simulation: or Test:")
    return found


class Copy:
    """A copy of the source that is patched and built. All bugs share it, so that each build
    compiles only the changed files."""

    def __init__(self, source: Path) -> None:
        self._root = source / "build/chaos/source"
        self._build = source / "build/chaos/build"
        self.dlock = self._build / "dlock"
        self.tests = self._build / "tests/dlock_contract_tests"
        self.simulation = self._build / "tests/dlock_simulation"
        self._refresh(source)
        self._do("cmake", "-S", str(self._root), "-B", str(self._build), "-G", "Ninja",
                 "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS=-O0 -g0", "-DCMAKE_UNITY_BUILD=ON",
                 "-DCMAKE_UNITY_BUILD_BATCH_SIZE=10", "-DDLOCK_TESTS=ON")

    def _refresh(self, source: Path) -> None:
        """Updates the copy. Unchanged files keep their times, so that they are not compiled again."""
        kept = set()
        for part in PARTS:
            files = [source / part] if (source / part).is_file() else (source / part).rglob("*")
            for file in files:
                if not file.is_file():
                    continue
                to = self._root / file.relative_to(source)
                kept.add(to)
                to.parent.mkdir(parents=True, exist_ok=True)
                if not to.exists() or to.read_bytes() != file.read_bytes():
                    shutil.copyfile(file, to)
        for file in self._root.rglob("*"):
            if file.is_file() and file not in kept:
                file.unlink()

    def _do(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"chaos: {' '.join(command)}\n{done.stdout}{done.stderr}")

    def build(self, patch: Path, program: Path) -> None:
        self._do("patch", "-d", str(self._root), "-p1", "-s", "-i", str(patch))
        try:
            self._do("cmake", "--build", str(self._build), "--target", program.name)
        finally:
            self._do("patch", "-d", str(self._root), "-p1", "-s", "-R", "-i", str(patch))


def find(dlock: Path, kind: str, seed: int, kept: Path) -> tuple[float, str] | None:
    """Returns the seconds until the first complaint, and the complaint; None if there was none."""
    began = time.monotonic()
    while True:
        left = LONGEST - (time.monotonic() - began)
        if left < 5:
            return None
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / "chaos"), "--store", *kind.split(), "--seconds", str(left), "--seed", str(seed),
             "--dlock", str(dlock), "--history", str(kept), "--stop-at-first"],
            capture_output=True, text=True, check=False)
        if done.returncode == 1:
            return time.monotonic() - began, done.stdout.splitlines()[1].strip()
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        seed += 1


def find_by_test(tests: Path, which: str) -> tuple[float, str] | None:
    """The same with the tests that the filter selects."""
    began = time.monotonic()
    done = subprocess.run([str(tests), f"--gtest_filter={which}", "--gtest_brief=1"], capture_output=True, text=True, check=False)
    failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
    return (time.monotonic() - began, failed[1]) if failed else None


def find_by_simulation(simulation: Path, store: str, seed: int) -> tuple[float, str] | None:
    """The same with simulated schedules, on two cores."""
    began = time.monotonic()
    hunters = [subprocess.Popen([str(simulation), "--store", store, "--seed", str(first), "--schedules", "1000000", "--seconds", "60"],
                                stdout=subprocess.PIPE, text=True) for first in (seed, seed + 1_000_000)]
    while all(hunter.poll() is None for hunter in hunters):
        time.sleep(0.05)
    lucky = next((hunter for hunter in hunters if hunter.poll() == 1), None)
    if not lucky:
        lucky = next((hunter for hunter in hunters if hunter.wait() == 1), None)
    for hunter in hunters:
        hunter.kill()
        hunter.wait()
    return (time.monotonic() - began, " ".join(lucky.stdout.read().splitlines())) if lucky else None


def hunt(source: Path, names: list[str], seed: int) -> int:
    """Prints a line for each bug. Fails if one was not found."""
    patches = [HERE / "bugs" / f"{name}.patch" for name in names] or sorted((HERE / "bugs").glob("*.patch"))
    copy = Copy(source)
    hunts = [(patch, finder, kind) for patch in patches for finder, kind in finders_of(patch)]
    missed = 0
    for patch, finder, kind in hunts:
        began = time.monotonic()
        copy.build(patch, {"Store": copy.dlock, "Simulation": copy.simulation, "Test": copy.tests}[finder])
        built = time.monotonic() - began
        if finder == "Test":
            found = find_by_test(copy.tests, kind)
        elif finder == "Simulation":
            found = find_by_simulation(copy.simulation, kind, seed)
        else:
            found = find(copy.dlock, kind, seed, source / f"build/chaos/{patch.stem}.jsonl")
        missed += found is None
        result = f"found after {found[0]:.0f} s: {found[1]}" if found else "NOT FOUND"
        print(f"{patch.stem} ({finder.lower()} {kind}, seed {seed}, built in {built:.0f} s): {result}", flush=True)
    print(f"chaos: {len(hunts) - missed} of {len(hunts)} bugs were found")
    return 1 if missed else 0
