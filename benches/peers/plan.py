"""What is compared with what: every comparison, its peers, and the settings that both sides are given."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from machine import is_intel

SPEED = "speed"
"""Steps per second: more is better."""
TIME = "time"
"""Seconds from process start until CartPole is solved: less is better."""
CPU = "cpu"
"""CPU seconds of a process from its start to its end: less is better."""


@dataclass(frozen=True)
class Peer:
    """One of our scripts with its arguments, run in the virtual environment of one requirements file."""

    name: str
    label: str
    requirements: str
    script: str
    arguments: tuple[str, ...] = ()
    keeps_compiled: bool = False
    """Whether it may cache compiled code between processes, or compiles again in each."""
    build: tuple[str, ...] = ()
    """Arguments with which the script builds a program, to which `arguments` then go instead."""
    ready_limit: float = 600
    """Seconds that a worker may take to import, compile and choose its setting."""
    measure_limit: float = 600
    """Seconds that a measurement of a worker may take."""


@dataclass(frozen=True)
class Comparison:
    """One task, operant's way to do it, and its peers'."""

    name: str
    title: str
    unit: str
    operant: tuple[str, ...]
    """Arguments after `operant`; the driver adds seed, steps and directories to those of `train`."""
    peers: tuple[Peer, ...]
    batch: int = 0
    """Environment steps of an update; 0 where nothing is trained."""
    operant_label: str = "operant"
    workers: str = ""
    """Requirements of the virtual environment in which operant's worker processes run, where it has some."""


@dataclass(frozen=True)
class Training:
    """Hyperparameters that mean the same to operant and to the peers, with CleanRL's names and values."""

    num_envs: int = 4
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5

    def peer_flags(self) -> tuple[str, ...]:
        """As flags of ppo_jax.py and ppo_torch.py."""
        return tuple(
            word for name, value in vars(self).items() for word in ("--" + name.replace("_", "-"), str(value))
        )

    def operant_flags(
        self, device: str, precision: str, env: str = "cartpole", **others: str
    ) -> tuple[str, ...]:
        """As flags of `operant train`, with everything that its presets might choose otherwise."""
        fixed = {
            "clip_vloss": "true",
            "target_kl": "0",
            "hidden": "64,64",
            "activation": "tanh",
            "shared_trunk": "false",
            "eval_interval": "1000000",
        }
        settings = {name: str(value) for name, value in vars(self).items()} | fixed | others
        flags = tuple(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
        return ("train", env, "--device", device, "--precision", precision, *flags)


MINIBATCH = 32_768
"""Samples of a minibatch where there are thousands of environments."""
ENDLESS = ("--total-timesteps", "1000000000000")
"""Speed is measured without an end of training in sight."""


def jax_ppo(training: Training, requirements: str, precision: str = "f32") -> Peer:
    """JAX under these hyperparameters."""
    flags = (*training.peer_flags(), *ENDLESS, "--precision", precision)
    return Peer("jax", "JAX, one jit (PureJaxRL style)", requirements, "ppo_jax.py", flags)


def torch_ppo(training: Training, vector: str) -> Peer:
    """PyTorch under these hyperparameters."""
    flags = (*training.peer_flags(), *ENDLESS, "--vector", vector)
    return Peer("torch", "PyTorch (CleanRL style)", "torch", "ppo_torch.py", flags)


def many(num_envs: int) -> Training:
    """Thousands of environments, in minibatches of one size."""
    return Training(num_envs=num_envs, num_minibatches=num_envs * 128 // MINIBATCH)


def ppo_on_cpu(name: str, training: Training, vector: str) -> Comparison:
    """Full PPO of operant, JAX and PyTorch under the same settings."""
    size = training.num_envs * training.num_steps // training.num_minibatches
    title = f"full PPO, {training.num_envs:,} envs x {training.num_steps}, 4 epochs, minibatches of {size:,}"
    peers = (jax_ppo(training, "jax"), torch_ppo(training, vector))
    batch = training.num_envs * training.num_steps
    return Comparison(name, title, SPEED, training.operant_flags("cpu", "f32"), peers, batch)


ZOO = Training(
    num_envs=8,
    num_steps=32,
    num_minibatches=1,
    update_epochs=20,
    learning_rate=1e-3,
    gamma=0.98,
    gae_lambda=0.8,
    ent_coef=0.0,
)
"""rl-zoo's for CartPole-v1, which ppo_sb3.py writes out in the library's own words."""

QUICK_ON_CPU = (
    *Training(16, 64, 4, 10, learning_rate=2.5e-3, ent_coef=0.0).peer_flags(),
    *("--clip-vloss", "0", "--target-kl", "0.03", "--eval-interval", "5", "--total-timesteps", "200000"),
)
"""For JAX to solve CartPole with: those of operant's own preset."""
QUICK_ON_GPU = (
    *Training(1024, 16, 4, 8, learning_rate=2.5e-3, ent_coef=0.0).peer_flags(),
    *("--clip-vloss", "0", "--target-kl", "0.03", "--eval-interval", "2", "--total-timesteps", "2000000"),
)
"""The same for a GPU, which is idle with 16 environments."""


def jax_solvers(requirements: str, flags: tuple[str, ...]) -> tuple[Peer, Peer]:
    """JAX that compiles in every process, and JAX that finds what an earlier process compiled."""
    compiling = Peer("jax", "JAX, compiling", requirements, "ppo_jax.py", ("--solve", *flags))
    kept = replace(compiling, name="jax-compiled", label="JAX, compiled before", keeps_compiled=True)
    return compiling, kept


def collector(name: str, title: str, env: str, envs: int) -> Comparison:
    """The engine's own rollout and `operant.Collector`: the same network, values and advantages, on one thread."""
    what = ("--env", env, "--envs", str(envs))
    peer = operant_python("collector", "operant.Collector", "--mode", "collector", *what)
    rollout = ("bench", "rollout", *what, "--threads", "1", "--budget", "3", "--json")
    title = f"rollouts of {title}, one thread, {envs:,} environments"
    return Comparison(name, title, SPEED, rollout, (peer,))


def operant_python(name: str, label: str, *arguments: str, script: str = "env_operant.py") -> Peer:
    """operant itself, from Python."""
    return Peer(f"python-{name}", f"operant from Python, {label}", "operant", script, arguments)


def on_cpu() -> list[Comparison]:
    """Everything that is compared on a CPU."""
    gymnasium = Peer("gymnasium", "Gymnasium, vectorised", "gymnasium", "env_gymnasium.py")
    envpool = Peer("envpool", "EnvPool", "envpool", "env_envpool.py")
    cartpole = Peer("gymnax", "gymnax", "gymnax", "env_gymnax.py", ("--env", "CartPole-v1"))
    breakout = Peer("gymnax", "gymnax", "gymnax", "env_gymnax.py", ("--env", "Breakout-MinAtar"))
    minatar = Peer("minatar", "MinAtar, one environment", "minatar", "env_minatar.py")
    zoo = Peer("sb3", "Stable-Baselines3, rl-zoo's settings", "torch", "ppo_sb3.py")
    python = tuple(
        operant_python(mode, label, "--mode", mode)
        for mode, label in (
            ("next-step", "next step, no copies"),
            ("same-step", "same step, no copies, dense final_obs"),
            ("default", "as Gymnasium's: copies, object arrays"),
        )
    )
    through_python = operant_python(
        "train", "operant.train", *Training(16, 64).peer_flags(), script="train_operant.py"
    )
    solve = ("train", "cartpole", "--device", "cpu", "--set", "stop_when_solved=true")
    solvers = (*jax_solvers("jax", QUICK_ON_CPU), replace(zoo, arguments=("--solve",)))
    return [
        Comparison(
            "env-cartpole", "CartPole alone", SPEED, bench_env("cartpole"), (gymnasium, envpool, cartpole)
        ),
        Comparison(
            "env-breakout",
            "MinAtar Breakout alone",
            SPEED,
            (*bench_env("minatar_breakout"), "--set", "env.sticky_action_prob=0"),
            (breakout, minatar),
        ),
        Comparison(
            "own-cartpole",
            "CartPole written in Python, alone",
            SPEED,
            bench_env(world("cartpole")),
            (gymnasium, cartpole),
        ),
        Comparison(
            "own-breakout",
            "MinAtar Breakout written in Python, alone",
            SPEED,
            bench_env(world("breakout")),
            (breakout, minatar),
        ),
        Comparison(
            "python-step",
            "CartPole through Python, one thread, 8,192 environments",
            SPEED,
            (*bench_env("cartpole"), "--threads", "1"),
            (*python, gymnasium, envpool),
        ),
        Comparison(
            "python-rollout",
            "CartPole with a trained policy through Python, one thread, 8,192 environments",
            SPEED,
            ("bench", "rollout", "--env", "cartpole", "--envs", "8192", "--json", "--threads", "1"),
            (operant_python("rollout", "rollout", "--mode", "rollout"),),
        ),
        collector("python-collector", "CartPole", "cartpole", 8192),
        collector("python-collector-breakout", "MinAtar Breakout", "minatar_breakout", 1024),
        Comparison(
            "python-train",
            "full PPO through Python, 16 envs x 64, 4 epochs, minibatches of 256",
            SPEED,
            Training(16, 64).operant_flags("cpu", "f32"),
            (through_python,),
            16 * 64,
        ),
        ppo_on_cpu("ppo-cleanrl", Training(), "sync"),
        ppo_on_cpu("ppo-2048", many(2048), "numpy"),
        ppo_on_cpu("ppo-8192", many(8192), "numpy"),
        Comparison(
            "ppo-zoo",
            "full PPO, 8 envs x 32, 20 epochs, minibatches of 256",
            SPEED,
            ZOO.operant_flags("cpu", "f32"),
            (zoo,),
            ZOO.num_envs * ZOO.num_steps,
        ),
        Comparison("solve", "CartPole solved, from process start", TIME, solve, solvers),
        *in_workers(),
        *worlds(),
        *bodies(),
        *pendulum(),
        *soft_actor_critic(),
    ]


RLTOOLS = Training(
    num_envs=4,
    num_steps=1024,
    num_minibatches=16,
    update_epochs=2,
    learning_rate=1e-3,
    gamma=0.9,
    ent_coef=0.0,
    vf_coef=1.0,
    max_grad_norm=1e30,
)
"""RLtools' for Pendulum: `rl/environments/pendulum/ppo` in its repository. It does not clip gradients."""
RLTOOLS_FIXED = {
    "clip_vloss": "false",
    "lr_schedule": "constant",
    "adam_eps": "1e-8",
    "activation": "relu",
    "norm_obs": "false",
    "norm_reward": "false",
    # RLtools' action of 1 is a torque of 2, and its initial standard deviation 2.
    "log_std_init": str(math.log(4.0)),
    "threads": "1",
}
"""What RLtools has by default, or cannot change."""


def against_rltools(name: str, title: str, updates: int, rule: dict[str, str], *more: str) -> Comparison:
    """Pendulum on one thread; `rule` has the keys that operant and the program of RLtools share."""
    fixed = RLTOOLS_FIXED | rule
    command = (*RLTOOLS.operant_flags("cpu", "f32", "pendulum", **fixed), *more)
    words = (word for key, value in rule.items() for word in ("--" + key.replace("_", "-"), value))
    openblas = Peer(
        "rltools",
        "RLtools, OpenBLAS",
        "rltools",
        "ppo_rltools.py",
        ("--updates", str(updates), *words),
        build=RLTOOLS.peer_flags(),
    )
    mkl = replace(openblas, name="rltools-mkl", label="RLtools, MKL", requirements="rltools-mkl")
    steps = updates * RLTOOLS.num_envs * RLTOOLS.num_steps
    peers = (openblas, mkl) if is_intel() else (openblas,)
    return Comparison(name, title, CPU, (*command, "--steps", str(steps)), peers)


def pendulum() -> list[Comparison]:
    """A whole training of RLtools' length with its evaluation, and training until two thresholds."""
    title = "Pendulum, 303,104 steps and 1,000 greedy episodes, CPU seconds"
    # A threshold out of reach: nothing is evaluated before the end.
    rule = {"eval_episodes": "1000", "solved_at": "1e9"}
    comparisons = [against_rltools("pendulum-train", title, 74, rule)]
    for threshold in (-200, -170):
        title = f"Pendulum until {threshold} over 100 greedy episodes, CPU seconds"
        ending = ("--set", "stop_when_solved=true")
        comparisons.append(
            against_rltools(f"pendulum{threshold}", title, 296, solved_rule(threshold), *ending)
        )
    return comparisons


def soft_actor_critic() -> list[Comparison]:
    """SAC on Pendulum, one environment and one thread, a minibatch of 256 for each step."""
    comparisons = []
    for width in (64, 256):
        hidden = (str(width), str(width))
        rule = ("--hidden", ",".join(hidden), "--threads", "1", "--device", "cpu", "--budget", "5", "--json")
        operant = ("bench", "train", "--algorithm", "sac", "--env", "pendulum", *rule)
        peers = tuple(
            Peer(name, label, requirements, "sac_sb3.py", ("--library", library, "--hidden", *hidden))
            for name, label, requirements, library in (
                ("sb3", "Stable-Baselines3", "torch", "stable_baselines3"),
                ("sbx", "SBX (JAX)", "sbx", "sbx"),
            )
        )
        title = f"SAC on Pendulum, {width}-{width}, a minibatch of 256 for each step, one thread"
        comparisons.append(Comparison(f"sac-{width}", title, SPEED, operant, peers))
    return [*comparisons, sac_at_rltools_settings()]


RLTOOLS_SAC = {
    "num_envs": "2",
    "batch_size": "100",
    "gamma": "0.99",
    "alpha": "0.5",
    "buffer_size": "40000",
    "learning_starts": "200",
    "learning_rate": "1e-3",
    "adam_eps": "1e-7",
}
"""RLtools' for Pendulum: `src/rl/zoo/pendulum-v1/sac.h` in its repository, and its defaults."""


def sac_at_rltools_settings() -> Comparison:
    """A whole training of RLtools' length: 20,000 times a step of both environments and a minibatch."""
    updates = 20_000
    # Nothing is evaluated or written before the end.
    own = {"updates_per_step": "0.5", "hidden": "64,64", "eval_episodes": "1000", "eval_interval": "1000000"}
    flags = (word for key, value in (RLTOOLS_SAC | own).items() for word in ("--set", f"{key}={value}"))
    operant = ("train", "pendulum", "--algorithm", "sac", "--device", "cpu", "--set", "threads=1", *flags)
    build = tuple(
        word for key, value in RLTOOLS_SAC.items() for word in ("--" + key.replace("_", "-"), value)
    )
    arguments = ("--updates", str(updates))
    openblas = Peer("rltools", "RLtools, OpenBLAS", "rltools", "sac_rltools.py", arguments, build=build)
    mkl = replace(openblas, name="rltools-mkl", label="RLtools, MKL", requirements="rltools-mkl")
    title = "SAC on Pendulum, 20,000 minibatches of 100 at RLtools' settings, CPU seconds"
    steps = updates * int(RLTOOLS_SAC["num_envs"])
    peers = (openblas, mkl) if is_intel() else (openblas,)
    return Comparison("sac-rltools", title, CPU, (*operant, "--steps", str(steps)), peers)


@dataclass(frozen=True)
class Also:
    """Another algorithm of operant, with its preset of a task."""

    algorithm: str
    every: int
    """Environment steps between two evaluations."""
    steps: int
    """What it trains for at most."""

    @property
    def side(self) -> str:
        """Its name in solve.tsv."""
        return f"operant-{self.algorithm}"

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"operant, {self.algorithm.upper()}"


@dataclass(frozen=True)
class Task:
    """A task with a public threshold, which operant's preset and the peers' own settings train to."""

    name: str
    env: str
    id: str
    threshold: float
    origin: str
    """Where the threshold is from."""
    every: int
    """Environment steps between two evaluations, rounded to whole updates of each side."""
    steps: int = 0
    """What operant trains for at most, where it is not its preset's number."""
    rounds: int = 5
    also: tuple[Also, ...] = ()


GYM, OF_ZOO = "Gymnasium's `reward_threshold`", "RL Baselines3 Zoo's PPO"
MUJOCO = {"every": 50_000, "steps": 1_000_000, "rounds": 3}
"""The slow tasks: operant trains for as many steps as rl-zoo."""
SAC = (Also("sac", 1_000, 20_000),)
"""Where the goal for steps is missed by operant's PPO, and SAC needs few."""
TASKS = (
    Task("cartpole", "cartpole", "CartPole-v1", 475, GYM, 5_000),
    Task("acrobot", "acrobot", "Acrobot-v1", -100, GYM, 10_000),
    Task("pendulum-200", "pendulum", "Pendulum-v1", -200, "as for RLtools", 20_000, also=SAC),
    Task("pendulum-170", "pendulum", "Pendulum-v1", -170, "as for RLtools", 20_000, also=SAC),
    Task("mountain-car", "mountain_car_continuous", "MountainCarContinuous-v0", 90, GYM, 4_000),
    Task("inverted-pendulum", "inverted_pendulum", "InvertedPendulum-v5", 950, GYM, 10_000),
    Task("double-pendulum", "inverted_double_pendulum", "InvertedDoublePendulum-v5", 9_100, GYM, 10_000),
    Task("reacher", "reacher", "Reacher-v5", -3.75, GYM, 20_000),
    Task("swimmer-282", "swimmer", "Swimmer-v5", 281.561, OF_ZOO, 40_000, 1_000_000, 3),
    Task("swimmer", "swimmer", "Swimmer-v5", 360, GYM, 40_000, 1_000_000, 3),
    Task("half-cheetah", "half_cheetah", "HalfCheetah-v5", 4_800, GYM, **MUJOCO),
    Task("hopper-2410", "hopper", "Hopper-v5", 2_410.435, OF_ZOO, **MUJOCO),
    Task("hopper", "hopper", "Hopper-v5", 3_800, GYM, **MUJOCO),
    Task("walker2d", "walker2d", "Walker2d-v5", 3_478.798, OF_ZOO, **MUJOCO),
    Task("ant-1327", "ant", "Ant-v5", 1_327.158, OF_ZOO, 50_000, 1_000_000, 3),
    Task("ant", "ant", "Ant-v5", 6_000, GYM, 50_000, 1_000_000, 3),
    Task("fourrooms", "minigrid_fourrooms", "MiniGrid-FourRooms-v0", 0.573, OF_ZOO, 50_000, rounds=3),
)


NO_ROW = """- RLtools: only Pendulum, whose settings for PPO it publishes.
- JAX in PureJaxRL's style: only CartPole, which `ppo_jax.py` has in JAX.
- PyTorch in CleanRL's style: only CartPole and Acrobot, at the settings of its PPO for classic control.
- MinAtar, memory, arcade, flight and prover: no public threshold for PPO within a budget of steps."""
"""Sides that a task lacks, for the page."""


OF_CLEANRL = ("CartPole-v1", "Acrobot-v1")
"""Tasks of CleanRL's `ppo.py`, of which `ppo_torch.py` has the settings."""


def solving() -> list[tuple[Task, Comparison]]:
    """Training until each task is solved: operant's preset and the peers, each with its own settings."""
    comparisons = []
    for task in TASKS:
        rule = ("--env", task.id, "--solved-at", str(task.threshold), "--eval-steps", str(task.every))
        label = "Stable-Baselines3, rl-zoo's settings"
        peers = [Peer("sb3", label, "torch", "ppo_sb3.py", ("--solve", *rule))]
        if task.id in OF_CLEANRL:
            peers.append(
                Peer("torch", "PyTorch, CleanRL's style", "torch", "ppo_torch.py", ("--solve", *rule))
            )
        if task.env == "cartpole":
            peers += jax_solvers("jax", QUICK_ON_CPU)
        if task.env == "pendulum":
            peers += against_rltools("", "", 296, solved_rule(task.threshold)).peers
        fixed = {"threads": 1, "solved_at": task.threshold, "eval_episodes": 100, "stop_when_solved": "true"}
        command = ["train", task.env, "--device", "cpu"]
        command += [word for key, value in fixed.items() for word in ("--set", f"{key}={value}")]
        command += ["--steps", str(task.steps)] if task.steps else []
        patient = tuple(replace(peer, measure_limit=36_000) for peer in peers)
        title = f"{task.id} until {task.threshold:g}, CPU seconds"
        each = Comparison(f"solve-{task.name}", title, CPU, tuple(command), patient)
        comparisons.append((task, each))
    return comparisons


def solved_rule(threshold: float) -> dict[str, str]:
    """How operant and the program of RLtools come to an end at a threshold."""
    return {"eval_episodes": "100", "solved_at": f"{threshold:g}", "eval_interval": "5"}


GYMNASIUM = {
    "gym-cartpole": "CartPole-v1",
    "gym-lunarlander": "LunarLander-v3",
    "gym-halfcheetah": "HalfCheetah-v5",
}
"""Gymnasium's environments that run in worker processes; EnvPool has the same versions."""
HOW = {
    "async": "Gymnasium, AsyncVectorEnv",
    "subproc": "Stable-Baselines3, SubprocVecEnv",
    "envpool": "EnvPool",
}
"""Ways of env_workers.py."""


def in_workers() -> list[Comparison]:
    """Gymnasium's environments alone, 32 of each, in operant's worker processes and in the peers'."""
    comparisons = []
    for name, id in GYMNASIUM.items():
        peers = tuple(
            Peer(how, label, "workers", "env_workers.py", ("--env", id, "--envs", "32", "--how", how))
            for how, label in HOW.items()
        )
        title = f"{id} alone in worker processes, 32 environments"
        command = (*bench_env(f"gym:{id}", envs=32), "--budget", "10")
        comparisons.append(Comparison(name, title, SPEED, command, peers, workers="workers"))
    return comparisons


BODIES = {
    "half_cheetah": "HalfCheetah-v5",
    "hopper": "Hopper-v5",
    "walker2d": "Walker2d-v5",
    "ant": "Ant-v5",
    "inverted_pendulum": "InvertedPendulum-v5",
    "inverted_double_pendulum": "InvertedDoublePendulum-v5",
    "reacher": "Reacher-v5",
    "swimmer": "Swimmer-v5",
}
"""MuJoCo's tasks, which EnvPool has in the same versions."""
OF_MUJOCO = {
    "rollout": "MuJoCo alone, mujoco.rollout",
    "step": "Gymnasium, one environment",
    "envpool": "EnvPool, one thread",
}
"""Ways of env_mujoco.py."""


def bodies() -> list[Comparison]:
    """MuJoCo's tasks alone, one thread each."""
    comparisons = []
    for name, id in BODIES.items():
        peers = tuple(
            Peer(how, label, "mujoco", "env_mujoco.py", ("--env", id, "--how", how))
            for how, label in OF_MUJOCO.items()
        )
        command = (*bench_env(name), "--threads", "1")
        comparisons.append(Comparison(f"body-{name}", f"{id} alone", SPEED, command, peers))
    return comparisons


MINATAR = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
"""The games of MinAtar, as its package names them."""
TOY_TEXT = {
    "frozen_lake": "FrozenLake-v1",
    "cliff_walking": "CliffWalking-v1",
    "taxi": "Taxi-v4",
    "blackjack": "Blackjack-v1",
}
ENVPOOL_HAS = {"CliffWalking-v1": "CliffWalking-v0", "Taxi-v4": "Taxi-v3"}
"""Where EnvPool has the version before."""
MINIGRID = {
    "minigrid_empty_8x8": "MiniGrid-Empty-8x8-v0",
    "minigrid_doorkey_8x8": "MiniGrid-DoorKey-8x8-v0",
    "minigrid_fourrooms": "MiniGrid-FourRooms-v0",
    "minigrid_keycorridor_s3r3": "MiniGrid-KeyCorridorS3R3-v0",
    "minigrid_multiroom_n4_s5": "MiniGrid-MultiRoom-N4-S5-v0",
    "minigrid_dynamic_obstacles_8x8": "MiniGrid-Dynamic-Obstacles-8x8-v0",
}


def worlds() -> list[Comparison]:
    """Environments alone against the packages whose rules they have, one core each."""
    comparisons = []
    for game in MINATAR:
        peers = [Peer("minatar", "MinAtar, one environment", "minatar", "env_minatar.py", ("--env", game))]
        if game != "seaquest":  # gymnax has none
            name = game.replace("_", " ").title().replace(" ", "") + "-MinAtar"
            peers.append(Peer("gymnax", "gymnax", "gymnax", "env_gymnax.py", ("--env", name)))
        command = (*bench_env(f"minatar_{game}"), "--threads", "1", "--set", "env.sticky_action_prob=0")
        comparisons.append(Comparison(f"world-{game}", f"MinAtar {game} alone", SPEED, command, tuple(peers)))
    for package, ids in (("gymnasium", TOY_TEXT), ("minigrid", MINIGRID)):
        for name, id in ids.items():
            single = Peer(package, f"{package}, one environment", package, "env_single.py")
            peers = [replace(single, arguments=("--package", package, "--env", id))]
            if package == "gymnasium":
                of_envpool = ("--env", ENVPOOL_HAS.get(id, id))
                peers.append(Peer("envpool", "EnvPool, all cores", "envpool", "env_envpool.py", of_envpool))
            command = (*bench_env(name), "--threads", "1")
            comparisons.append(Comparison(f"world-{name}", f"{id} alone", SPEED, command, tuple(peers)))
    return comparisons


def world(name: str) -> str:
    """The file of a world that was recorded from examples/worlds."""
    return str(Path(__file__).resolve().parents[2] / f"crates/operant-env/tests/data/{name}.world")


def bench_env(name: str, envs: int = 8192) -> tuple[str, ...]:
    """operant's measurement of an environment alone."""
    return ("bench", "env", "--env", name, "--envs", str(envs), "--json")


def on_gpu() -> list[Comparison]:
    """Everything that is compared on a GPU: full PPO and the time to solve."""
    comparisons = []
    for envs, precision in ((2048, "f32"), (8192, "f32"), (8192, "tf32"), (8192, "bf16"), (65_536, "bf16")):
        training = many(envs)
        title = (
            f"full PPO on the GPU, {precision}, {envs:,} envs x 128, 4 epochs, minibatches of {MINIBATCH:,}"
        )
        flags = training.operant_flags("cuda", precision)
        peers = (jax_ppo(training, "jax-cuda", precision),)
        comparisons.append(
            Comparison(f"ppo-{envs}-{precision}", title, SPEED, flags, peers, envs * training.num_steps)
        )
    solve = ("train", "cartpole", "--device", "cuda", "--set", "stop_when_solved=true")
    title = "CartPole solved on the GPU, from process start"
    solvers = jax_solvers("jax-cuda", QUICK_ON_GPU)
    comparisons.append(
        Comparison("solve", title, TIME, solve, solvers, operant_label="operant, compiled before")
    )
    return comparisons
