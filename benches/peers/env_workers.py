"""A Gymnasium environment with random actions and auto-reset, stepped in one of three ways.

AsyncVectorEnv of Gymnasium and SubprocVecEnv of Stable-Baselines3 have a process for each environment;
EnvPool has the environment in C++, and threads.
"""

import argparse
import multiprocessing
from collections.abc import Callable
from typing import Any

from random_actions import BATCHES, random_actions
from worker import Candidate, Step, serve, versions

STEPS_PER_CALL = 8
WORKER_OF_SB3 = "stable_baselines3.common.vec_env.subproc_vec_env"


def makers(name: str, num_envs: int) -> list[Callable[[], Any]]:
    """What makes the environments, each in its process."""
    import gymnasium

    return [lambda: gymnasium.make(name, disable_env_checker=True)] * num_envs


def stepping(envs: Any, space: Any, num_envs: int) -> Step:
    """Steps of all environments; `space` is the action space of one."""
    actions = random_actions(space, num_envs)

    def step() -> int:
        for index in range(STEPS_PER_CALL):
            envs.step(actions[index % BATCHES])
        return STEPS_PER_CALL * num_envs

    return step


def prepare_async(name: str, num_envs: int) -> Step:
    """AsyncVectorEnv with observations in shared memory, which are not copied: nothing reads them."""
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode

    envs = AsyncVectorEnv(
        makers(name, num_envs), shared_memory=True, copy=False, autoreset_mode=AutoresetMode.SAME_STEP
    )
    envs.reset(seed=0)
    return stepping(envs, envs.single_action_space, num_envs)


def prepare_subproc(name: str, num_envs: int) -> Step:
    """SubprocVecEnv with its default start method; the fork server imports PyTorch once for all processes."""
    from stable_baselines3.common.vec_env import SubprocVecEnv

    multiprocessing.set_forkserver_preload([WORKER_OF_SB3])
    envs = SubprocVecEnv(makers(name, num_envs))
    envs.seed(0)
    envs.reset()
    return stepping(envs, envs.action_space, num_envs)


def pools(name: str, num_envs: int) -> list[Candidate]:
    """EnvPool with all environments in lock-step, and with half of them while it steps the others."""
    from env_envpool import prepare

    return [
        Candidate({"envs": num_envs, "batch": batch}, lambda batch=batch: prepare(name, num_envs, batch))
        for batch in (num_envs, num_envs // 2)
    ]


def main() -> None:
    """Serves one environment id in one of the three ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--envs", type=int, default=32)
    parser.add_argument("--how", choices=("async", "subproc", "envpool"), required=True)
    arguments = parser.parse_args()
    name, envs, settings = arguments.env, arguments.envs, {"envs": arguments.envs}
    if arguments.how == "async":
        serve(versions("gymnasium", "numpy"), [Candidate(settings, lambda: prepare_async(name, envs))])
    elif arguments.how == "subproc":
        packages = versions("stable-baselines3", "gymnasium", "numpy")
        serve(packages, [Candidate(settings, lambda: prepare_subproc(name, envs))])
    else:
        serve(versions("envpool", "numpy"), pools(name, envs))


if __name__ == "__main__":
    main()
