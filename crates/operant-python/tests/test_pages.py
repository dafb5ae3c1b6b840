"""The Python code of README.md and of docs: each block runs, and the loops play environments of every kind."""

from types import SimpleNamespace
from typing import Any

import echo_envs
import gym_envs
import gymnasium
import numpy as np
import pytest
import test_gym
from pages import INSIDE as PARTS
from pages import PAGES, blocks
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

import operant
from operant import math as om
from operant import shapes

place = test_gym.place
BLOCKS = [(page.name, block) for page in PAGES for _, block in blocks(page)]
# Blocks that do not run here, by a line of each.
ELSEWHERE = {
    'from torch.utils.dlpack import from_dlpack\n\nenvs = operant.make_vec("CartPole-v1", num_envs=8192, seed=1, device="cuda")': "needs PyTorch and a GPU",
    "collector = operant.Collector": "needs PyTorch; examples/own_loss.py is run with it",
    "import operant.ray\n\nsweep": "needs Ray",
    "from ray import tune": "needs Ray",
    "callbacks=[operant.track.WandB(": "needs Weights & Biases, MLflow and Trackio; the tests in trackers run with them",
    "import h5py": "needs h5py and a data set; test_replay.py reads one of its form",
    "import pandas": "needs pandas and a notebook",
    "Usage: python play_checkpoint.py": "takes an argument; a test of the command line runs it",
}
# Training and batches are shorter here, and environments are some that are installed.
HERE = {
    "8192": "16",
    "range(1000)": "range(20)",
    "00_000": "0_00",
    "threads=1, ": "",
    '"seeds": 10': '"seeds": 1',
    "LunarLander-v3": "CartPole-v1",
    ', render_mode="human"': "",
    "env = RecordVideo(": "env, _ = (",  # test_render.py records films
    'operant.train("gym:ALE/Pong-v5", preset="atari")': "run  # test_atari.py trains it",
}
# What surrounds parts of a world.
INSIDE = {
    "own = draws.reserve(2)": "def step(self, s, action, draws):\n    found = s.x == s.goal_x\n{}\n    return s, om.to_float(total), found",
    "def legal(self, s):": "{}",
}
WORLD = """
@operant.world(observation_space=gymnasium.spaces.Box(-1, 1, (2,)), action_space=gymnasium.spaces.Discrete(4), max_episode_steps=9)
class Inside(Treasure):
    walls: operant.Uint
    def reset(self, draws):
        return self.State(x=0, y=0, goal_x=1, goal_y=1, walls=3)
{}
assert "walls" in Inside.emit()
"""


def replaced(block: str, changes: dict[str, str]) -> str:
    for before, after in changes.items():
        block = block.replace(before, after)
    return block


def indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("page", sorted({page for page, _ in BLOCKS}, key=lambda page: (page != "README.md", page)))
def test_the_code_of_the_pages_runs(page, monkeypatch):
    """In order: a block may use what an earlier one made."""
    for name, value in {"TOTAL_TIMESTEPS": 512, "EVAL_EPISODES": 2, "NUM_ENVS": 16, "NUM_STEPS": 16, "THREADS": 1}.items():
        monkeypatch.setenv(f"OPERANT_{name}", str(value))
    names: dict[str, Any] = {"__name__": "__main__", "operant": operant, "gymnasium": gymnasium, "shapes": shapes, "om": om, "MyEnv": gym_envs.Steady}
    for number, block in enumerate(block for of, block in BLOCKS if of == page):
        if any(line in block for line in ELSEWHERE):
            continue
        for line, around in INSIDE.items():
            if line in block:
                is_body = around != "{}"
                block = WORLD.format(indented(around.format(indented(block) if is_body else block)))
        code = compile(replaced(block, HERE), f"{page}, block {number}", "exec")
        exec(code, names)


def test_blocks_that_do_not_run_here_are_listed():
    assert list(INSIDE) == PARTS
    for line in [*ELSEWHERE, *INSIDE, *HERE]:
        assert any(line in block for _, block in BLOCKS), line
    for line in [*ELSEWHERE, *INSIDE]:
        assert sum(line in block for _, block in BLOCKS) == 1, line


# --- Loops

WATCH = next(block for _, block in BLOCKS if "# watch the policy" in block)
PLAY = next(block for _, block in BLOCKS if "state = ended = None" in block)
MASKED_WORLD = gym_envs.MaskedWalkWorld("parts", "choice")
#: An environment of `Judged`, by its number, or a world; and settings.
KINDS = {
    "start, masks": (0, {}),
    "tuple": (2, {}),
    "dictionary, start": (1, {}),
    "several starts, memory": (4, {"core": "gru"}),
    "reals": (13, {}),
    "nested, start": (14, {"core": "mingru"}),
    "world": (gym_envs.WalkWorld("indices", "reals"), {}),
    "world, masks, memory": (MASKED_WORLD, {"core": "lstm"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_documented_loops_play_as_the_engine_does(kind):
    """In each episode the same happens, and the rewards depend on all actions, so returns are equal where all actions are."""
    env, settings = KINDS[kind]
    names: dict[str, Any] = {}

    def train(*_, **__):
        name = f"echo_envs:Judged?number={env}" if isinstance(env, int) else env
        options = {"workers": 1, "restarts": 0} if isinstance(env, int) else {}
        return operant.train(name, env_options=options, **test_gym.QUICK, **settings)

    def make(*_):
        names["single"] = RecordEpisodeStatistics(echo_envs.Judged(env) if isinstance(env, int) else operant.make(env))
        return names["single"]

    def make_vec(*_, **__):
        if isinstance(env, int):
            envs = SyncVectorEnv([lambda: echo_envs.Judged(env)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
        else:
            envs = operant.make_vec(env, 3, seed=1, episode_stats=False)
        names["several"] = RecordVectorStatistics(envs)
        return names["several"]

    ours = {"operant": SimpleNamespace(train=train, make_vec=make_vec, load=lambda _: names["run"].policy), "gymnasium": SimpleNamespace(make=make)}
    for block in (WATCH, PLAY):
        code = "\n".join(line for line in replaced(block, HERE).splitlines() if not line.startswith("import "))
        if kind == "tuple" and block is PLAY:
            continue  # Gymnasium's vectors have no masks of tuples
        exec(code, ours | names | {"__name__": kind}, names)
    expected = names["run"].eval(1)["eval_return_mean"]
    returns = [float(value) for envs in ("single", "several") if envs in names for value in names[envs].return_queue]
    assert len(returns) >= (2 if kind == "tuple" else 8) and len(set(returns)) == 1
    np.testing.assert_allclose(returns, expected, rtol=1e-6)
