"""Measures `operant sweep`: against single runs of `operant train`, and against JAX's vmap over agents.

    python benches/peers/sweep.py --rounds 3 > sweep.md

Every run of a sweep is also trained alone, and the states of both are compared byte for byte. The sides take
turns in each round. The tables go to stdout in Markdown, progress to stderr.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contender import clean_environment, operant_environment
from installation import HERE, Unavailable, operant_binary, say
from machine import describe
from plan import Training
from report import ran_on, span
from run import add_programs, interpreter
from worker import usable_cores

RATES = ("3e-4", "1e-3", "2.5e-3", "5e-3", "1e-2")
SEEDS = 10
AGENTS = 64
AGENT_STEPS = 102_400
"""Environment steps of each of the agents."""
ONE_THREAD = ("--set", "threads=1", "--set", "checkpoint_interval=0", "--set", "ring=false")
"""For single runs, which otherwise take all cores and write more than the runs of a sweep do."""


@dataclass(frozen=True)
class Work:
    """Runs to train: environment, settings of all, values of the learning rate, seeds."""

    env: str
    flags: tuple[str, ...]
    rates: tuple[str, ...]
    seeds: int

    def runs(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The directory of each run in a sweep, and what `operant train` needs for it."""
        for trial, rate in enumerate(self.rates):
            for seed in range(1, self.seeds + 1):
                rate_flags = ("--set", f"learning_rate={rate}") if rate else ()
                yield f"{trial:04}-seed{seed}", (*self.flags, *rate_flags, "--seed", str(seed))

    def sweep_flags(self) -> tuple[str, ...]:
        """What `operant sweep` needs for all."""
        rates = ("--set", "learning_rate=" + ",".join(self.rates)) if self.rates != ("",) else ()
        return (*self.flags, *rates, "--seeds", str(self.seeds))


class Operant:
    """The binary, with a directory for runs."""

    def __init__(self, binary: Path) -> None:
        self.binary, self.directory = binary, Path(tempfile.mkdtemp(prefix="peers-sweep-"))

    def call(self, *words: str) -> dict[str, Any]:
        """Runs it to its end; returns its JSON."""
        command = [str(self.binary), *words, "--run-dir", str(self.directory), "--quiet", "--json"]
        environment = operant_environment(self.directory, None)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd=self.directory
        )
        if done.returncode:
            raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def sweep(self, work: Work, name: str) -> tuple[float, dict[str, Any]]:
        """A sweep: seconds, and its report."""
        began = time.perf_counter()
        report = self.call("sweep", work.env, "--name", name, *work.sweep_flags())
        return time.perf_counter() - began, report

    def singles(self, work: Work, prefix: str, streams: int, flags: tuple[str, ...] = ()) -> float:
        """The same runs, each as a separate process, in parallel streams: seconds."""

        def train(run: tuple[str, tuple[str, ...]]) -> None:
            self.call("train", work.env, "--name", prefix + run[0], *run[1], *flags)

        began = time.perf_counter()
        with ThreadPoolExecutor(streams) as pool:
            list(pool.map(train, work.runs()))
        return time.perf_counter() - began

    def state(self, run: str) -> bytes:
        """The state in the last checkpoint."""
        steps = sorted((self.directory / run / "checkpoints").glob("step_*"))
        return (steps[-1] / "state.safetensors").read_bytes()

    def equal(self, work: Work, sweep: str, prefix: str) -> int:
        """How many runs of a sweep have the bytes of the single run."""
        names = [name for name, _ in work.runs()]
        return sum(self.state(f"{sweep}/trials/{name}") == self.state(prefix + name) for name in names)


def seconds(values: list[float]) -> str:
    """Median and range of times."""
    return span(values, "time")


def shares(alone: list[float], sweep: list[float], streams: int = 1) -> str:
    """Median and range, over the rounds, of a time, divided among streams, over that of the sweep."""
    ratios = [a / streams / b for a, b in zip(alone, sweep, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})"


def against_single_runs(operant: Operant, rounds: int) -> list[str]:
    """Sweeps beside single runs."""
    cores = usable_cores()
    lines = [
        f"## {len(RATES)} learning rates x {SEEDS} seeds, beside single runs",
        "",
        "Seconds of all processes, starts and final evaluations included. One at a time: `operant train` "
        f"with one thread. Share of the sum: that time, divided among the {cores} cores, over the sweep's. "
        f"{cores} at a time: {cores} such processes in parallel. Shell loop: `operant train` as it is, one "
        "run after the other.",
        "",
        "| environment | runs | sweep | one at a time | share of the sum | "
        f"{cores} at a time | ratio | shell loop | ratio | same bytes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for env in ("cartpole", "acrobot"):
        work = Work(env, (), RATES, SEEDS)
        sweeps, ones, pairs, loops, equal = [], [], [], [], []
        for turn in range(rounds):
            name = f"{env}-{turn}"
            sweeps.append(operant.sweep(work, name)[0])
            ones.append(operant.singles(work, f"{name}-one-", 1, ONE_THREAD))
            pairs.append(operant.singles(work, f"{name}-pair-", cores, ONE_THREAD))
            loops.append(operant.singles(work, f"{name}-loop-", 1))
            equal.append(operant.equal(work, name, f"{name}-loop-"))
            times = ", ".join(f"{each[-1]:.1f}" for each in (sweeps, ones, pairs, loops))
            say(f"{env}: {times} s for a sweep, one at a time, {cores} at a time, and a shell loop")
        count = len(RATES) * SEEDS
        lines.append(
            f"| {env} | {count} | {seconds(sweeps)} | {seconds(ones)} | **{shares(ones, sweeps, cores)}** | "
            f"{seconds(pairs)} | {shares(pairs, sweeps)} | {seconds(loops)} | {shares(loops, sweeps)} | "
            f"{min(equal)} of {count} |"
        )
    return [*lines, ""]


def interquartile(values: list[float]) -> float:
    """The mean of the middle half."""
    cut = len(values) // 4
    return statistics.mean(sorted(values)[cut : len(values) - cut])


def against_vmap(
    operant: Operant, rounds: int, options: argparse.Namespace
) -> tuple[list[str], dict[str, Any]]:
    """64 seeds beside one jit for 64 agents."""
    training = Training()
    steps = str(AGENT_STEPS)
    # Without the first words, `train cartpole`, the device and the precision.
    words = training.operant_flags("cpu", "f32")
    flags = (*words[words.index("--set") :], "--steps", steps)
    work = Work("cartpole", flags, ("",), AGENTS)
    python = interpreter("jax", options)
    command = [str(python), str(HERE / "sweep_jax.py"), *training.peer_flags(), "--agents", str(AGENTS)]
    environment = clean_environment() | {"JAX_PLATFORMS": "cpu"}
    ours, theirs, compiling, equal, jax = [], [], [], [], {}
    report: dict[str, Any] = {}
    for turn in range(rounds):
        name = f"vmap-{turn}"
        took, report = operant.sweep(work, name)
        ours.append(took)
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "--total-timesteps", steps],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if done.returncode:
            raise Unavailable(f"sweep_jax.py: {done.stderr.strip()}")
        theirs.append(time.perf_counter() - began)
        jax = json.loads(done.stdout)
        compiling.append(jax["compile_s"])
        say(
            f"{AGENTS} agents: operant {ours[-1]:.1f} s, JAX {theirs[-1]:.1f} s, "
            f"of which {compiling[-1]:.1f} s compiling"
        )
        if turn == 0:
            operant.singles(work, f"{name}-one-", usable_cores(), ONE_THREAD)
            equal.append(operant.equal(work, name, f"{name}-one-"))
    scores = [run["score"] for run in report["environments"][0]["groups"][0]["runs"]]
    lines = [
        f"## {AGENTS} agents of CartPole, beside JAX's vmap",
        "",
        f"{AGENT_STEPS:,} steps each, {training.num_envs} environments x {training.num_steps} steps, "
        f"{training.num_minibatches} minibatches, {training.update_epochs} epochs, two 64-64 networks, then "
        "100 greedy episodes each. JAX: one jit for the training of all agents (benches/peers/sweep_jax.py). "
        "Seconds of whole processes.",
        "",
        "| side | time | compiling | interquartile mean of the scores |",
        "| --- | --- | --- | --- |",
        f"| operant, {AGENTS} seeds | {seconds(ours)} | - | {interquartile(scores):.1f} |",
        f"| JAX, vmap | {seconds(theirs)} | {seconds(compiling)} | {interquartile(jax['means']):.1f} |",
        "",
        f"Times as fast as JAX: {shares(theirs, ours)}. "
        f"{equal[0]} of {AGENTS} runs have the bytes of `operant train` with their seed.",
        "",
    ]
    return lines, jax["versions"]


def main() -> int:
    """Measures both; the exit code is 1 where one could not be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    add_programs(parser)
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    try:
        binary = operant_binary(options.operant)
        vmap, versions = against_vmap(Operant(binary), options.rounds, options)
        single = against_single_runs(Operant(binary), options.rounds)
    except Unavailable as reason:
        say(f"error: {reason}")
        return 1
    print("\n".join([*ran_on(describe(binary, "cpu"), [{"versions": versions}]), *single, *vmap]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
