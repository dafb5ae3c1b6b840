"""Environment steps to solve Pendulum at RLtools' settings, with the differences of the two sides one by one.

    python benches/peers/bisect_pendulum.py

Each side is also trained in the other's way, where it can be. Finished variants are kept in
docs/results/rltools-steps.json and not repeated; it writes docs/results/rltools-steps.md.
"""

import argparse
import functools
import json
import math
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import plan
from contender import clean_environment, operant_environment
from installation import HERE, ROOT, Unavailable, operant_binary, say
from machine import describe
from report import as_json
from run import add_programs, interpreter
from worker import usable_cores

KEPT, PAGE = ROOT / "docs/results/rltools-steps.json", ROOT / "docs/results/rltools-steps.md"
SEEDS = range(1001, 1031)
THRESHOLDS = (-200, -170)
UPDATES = 296

WORLD = '''
from math import pi
import gymnasium, numpy as np, operant
from operant import math as om

HIGH = np.array([1.0, 1.0, 8.0], np.float32)

@operant.world(
    name="pendulum_variant",
    observation_space=gymnasium.spaces.Box(-HIGH, HIGH),
    action_space=gymnasium.spaces.Box(-1e3, 1e3, (1,)),
    max_episode_steps=200,
)
class Pendulum:
    """Gymnasium's Pendulum with some of RLtools' rules."""

    theta: operant.Float
    theta_dot: operant.Float
    steps: operant.Float

    def reset(self, draws):
        return self.State(theta=draws.uniform(-pi, pi), theta_dot=draws.uniform(-1.0, 1.0), steps=0.0)

    def step(self, s, action, draws):
        torque = action[0] * FACTOR
        u = om.clip(torque, -2.0, 2.0)
        angle = om.fma(om.floor((s.theta + pi) * (1.0 / (2.0 * pi))), -2.0 * pi, s.theta)
        cost = om.fma(s.theta_dot * s.theta_dot, 0.1, angle * angle)
        cost = om.fma(PAID * PAID, 0.001, cost)
        acceleration = om.fma(u, 3.0, om.sin(s.theta) * 15.0)
        s.theta_dot = om.clip(om.fma(acceleration, 0.05, s.theta_dot), -8.0, 8.0)
        s.theta = om.fma(s.theta_dot, 0.05, s.theta)
        s.steps = s.steps + 1.0
        return s, -cost, ENDS

    def observe(self, s):
        sin, cos = om.sin_cos(s.theta)
        return [cos, sin, s.theta_dot]

Pendulum.save(PATH)
'''
"""FACTOR, PAID and ENDS are written in."""


@dataclass(frozen=True)
class Variant:
    """A side with some of the other's ways."""

    side: str
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    """Of operant, or options of ppo_rltools.cpp."""
    world: tuple[str, str, str] | None = None
    """FACTOR, PAID and ENDS of operant's world; otherwise its own."""


HALF = {"log_std_init": str(math.log(2.0))}
"""An action of which 1 is a torque of 2 begins with a deviation of 2."""
SAME_ADAM = {"adam_eps": "1e-4"}
"""max(v, 1e-8) + 1e-8 under the root is at least 1e-4."""
FASTER = {"learning_rate": "0.0014142"}
PYTORCH = {"init": "pytorch"}
OPERANT = (
    Variant("operant", "as it is"),
    Variant("operant", "action times 2, with a deviation of 2", HALF, ("2.0", "u", "False")),
    Variant("operant", "cost of the action before clipping", {}, ("1.0", "torque", "False")),
    Variant("operant", "both", HALF, ("2.0", "torque", "False")),
    Variant("operant", "a time limit is an end: value 0 after it", {}, ("1.0", "u", "s.steps > 199.5")),
    Variant("operant", "Adam's epsilon 1e-4", SAME_ADAM),
    Variant("operant", "learning rate times the root of 2", FASTER),
    Variant("operant", "initial deviation 2 instead of 4", HALF),
    Variant("operant", "initial weights as in PyTorch", PYTORCH),
    Variant(
        "operant",
        "action times 2, its cost, epsilon, learning rate",
        HALF | SAME_ADAM | FASTER,
        ("2.0", "torque", "False"),
    ),
    Variant(
        "operant",
        "the same, and initial weights",
        HALF | SAME_ADAM | FASTER | PYTORCH,
        ("2.0", "torque", "False"),
    ),
)
OWN_STEPS, NO_FLOOR, CLIPPED = {"own-steps": "1"}, {"epsilon-sqrt": "0"}, {"clipped-cost": "1"}
ORTHOGONAL = {"orthogonal": "1"}
RLTOOLS = (
    Variant("RLtools", "as it is"),
    Variant("RLtools", "cost of the clipped action", CLIPPED),
    Variant("RLtools", "Adam's bias correction by each network's own steps", OWN_STEPS),
    Variant("RLtools", "Adam without the least v", NO_FLOOR),
    Variant("RLtools", "initial weights as operant's", ORTHOGONAL),
    Variant("RLtools", "initial deviation 1 instead of 2", {"initial-std": "1"}),
    Variant("RLtools", "all of these but the deviation", OWN_STEPS | NO_FLOOR | CLIPPED | ORTHOGONAL),
)

ABOUT = """# Steps to solve Pendulum at RLtools' settings

Written by `python benches/peers/bisect_pendulum.py`: environment steps until a mean of -200 or -170 over
100 greedy episodes, at RLtools' settings and by the rule of
[benches/peers/README.md](../../benches/peers/README.md#rltools), which lists what differs between the
two sides. Medians of 30 seeds, and quartiles; every measurement is in
[rltools-steps.json](rltools-steps.json). operant's worlds are in the script, RLtools' changes are
options of `ppo_rltools.cpp`."""
REST = """## What is not measured exactly, or not at all

- Time limit: RLtools sets the advantage of the last step to 0. operant cannot, and RLtools does not keep
  the last observation, whose value operant needs; operant's row ends the episode there instead.
- Adam's bias correction: RLtools' `train` gives both networks to one optimizer, whose count of steps
  advances twice for each. At step k its second moment is corrected by `1 - 0.999^2k` instead of `1 -
  0.999^k`, so that its learning rate is 1.41 times as large at first and 1.17 times at k = 1,000 (31
  updates, 128 k environment steps). RLtools' row is exact; operant's row has 1.41 times the rate from
  beginning to end.
- Deviation of advantages: with 256 samples the two differ by 0.2%.
- Minibatches by index or in place, values step by step or at once, generators of random numbers: the
  same distribution up to rounding.
- Output: no effect on steps."""


def world_file(python: Path, variant: Variant, directory: Path) -> str:
    """The variant's world, recorded by the operant package."""
    assert variant.world is not None
    path = directory / "pendulum.world"
    text = WORLD.replace("PATH", repr(str(path)))
    for name, value in zip(("FACTOR", "PAID", "ENDS"), variant.world, strict=True):
        text = text.replace(name, value)
    source = directory / "pendulum.py"
    source.write_text(text)
    done = subprocess.run([str(python), str(source)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"the world cannot be recorded: {done.stderr.strip().splitlines()[-1]}")
    return str(path)


def command_of(variant: Variant, options: argparse.Namespace, directory: Path) -> list[str]:
    """The program with its settings, less threshold and seed; raises Unavailable."""
    if variant.side == "operant":
        env = (
            world_file(options.with_operant or interpreter("operant", options), variant, directory)
            if variant.world
            else "pendulum"
        )
        fixed = plan.RLTOOLS_FIXED | {
            "eval_episodes": "100",
            "eval_interval": "5",
            "stop_when_solved": "true",
        }
        flags = plan.RLTOOLS.operant_flags("cpu", "f32", env, **(fixed | variant.settings))
        steps = UPDATES * plan.RLTOOLS.num_envs * plan.RLTOOLS.num_steps
        return [str(options.binary), *flags, "--json", "--quiet", "--steps", str(steps)]
    words = [word for name, value in variant.settings.items() for word in ("--" + name, value)]
    rule = ["--updates", str(UPDATES), "--eval-episodes", "100", "--eval-interval", "5"]
    return [rltools(interpreter("rltools", options)), *rule, *words]


@functools.cache
def rltools(python: Path) -> str:
    """The program of RLtools."""
    build = [str(python), str(HERE / "ppo_rltools.py"), *plan.RLTOOLS.peer_flags()]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip())
    return json.loads(done.stdout)["program"]


def steps_of(variant: Variant, command: list[str], threshold: int, seed: int) -> int | None:
    """Steps of one training, or None where the threshold was not reached."""
    with tempfile.TemporaryDirectory() as name:
        if variant.side == "operant":
            environment = operant_environment(Path(name), None)
            words = ["--seed", str(seed), "--set", f"solved_at={threshold}", "--run-dir", name]
        else:
            environment = clean_environment() | {"OPENBLAS_NUM_THREADS": "1"}
            words = ["--seed", str(seed), "--solved-at", str(threshold)]
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, env=environment, cwd=name, check=False
        )
    if done.returncode != 0:
        raise Unavailable((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    found = json.loads(done.stdout)
    solved = found["solved"] if "solved" in found else found["solved_at_step"] is not None
    return found["env_steps"] if solved else None


def cell(steps: list[int | None]) -> str:
    """Median and quartiles in thousands; a seed that did not solve counts as slower than any."""
    numbers = sorted(math.inf if each is None else each / 1e3 for each in steps)
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    failed = steps.count(None)
    return f"{middle:,.0f} k ({low:,.0f} .. {high:,.0f})" + (f", {failed} not" if failed else "")


def page(kept: dict) -> str:
    """The table in Markdown."""
    lines = [
        ABOUT,
        "",
        f"| side | variant | {' | '.join(f'until {each}' for each in THRESHOLDS)} |",
        "| --- | --- | --- | --- |",
    ]
    absent = []
    for variant in (*OPERANT, *RLTOOLS):
        name = f"{variant.side}: {variant.name}"
        found = kept["variants"].get(name, {})
        if not found:
            absent.append(f"- {name}: {kept['errors'].get(name, 'not run')}")
            continue
        cells = [cell(found[each]) if each in found else "not run" for each in map(str, THRESHOLDS)]
        lines.append(f"| {variant.side} | {variant.name} | {' | '.join(cells)} |")
    facts = kept["machine"]
    ran = "{processor}, {cores} cores; {date}; {operant} ({commit}).".format(**facts)
    lines += ["", REST, *absent, "", ran]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs the variants that are missing; the exit code is 1 where one could not be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_programs(parser)
    parser.add_argument(
        "--with-operant", type=Path, help="interpreter that has the operant package, for its worlds"
    )
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    options.binary = operant_binary(options.operant)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"variants": {}}
    kept |= {"machine": describe(options.binary, "cpu"), "errors": {}}
    for variant in (*RLTOOLS, *OPERANT):
        name = f"{variant.side}: {variant.name}"
        found = kept["variants"].setdefault(name, {})
        try:
            with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(usable_cores()) as pool:
                missing = [each for each in THRESHOLDS if str(each) not in found]
                command = command_of(variant, options, Path(directory)) if missing else []
                for threshold in missing:
                    runs = pool.map(lambda seed: steps_of(variant, command, threshold, seed), SEEDS)  # noqa: B023
                    found[str(threshold)] = list(runs)
                    say(f"{name}, {threshold}: {cell(found[str(threshold)])}")
                    KEPT.write_text(as_json(kept) + "\n")
        except Unavailable as reason:
            kept["errors"][name] = str(reason)
            say(f"{name}: {reason}")
        PAGE.write_text(page(kept))
    return 1 if kept["errors"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
