"""The largest tiles that a trained policy reaches in 2048: `python examples/tiles_2048.py RUN [GAMES]`.

Train the run first: `operant train game_2048 --name RUN`.
"""

import sys
from collections import Counter

import numpy as np

import operant

name, games = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
policy = operant.load(name)
# With this mode the observation after the last move is the final board.
envs = operant.make_vec("game_2048", num_envs=games, autoreset_mode="next_step")
obs, info = envs.reset(seed=1_000_003)
largest, playing = np.zeros(games, int), np.ones(games, bool)
while playing.any():
    obs, _, terminated, truncated, info = envs.step(policy(obs, action_mask=info["action_mask"]))
    # A cell holds the exponent of its tile.
    largest = np.where(playing, obs.reshape(games, -1).max(axis=1), largest)
    playing &= ~(terminated | truncated)
for exponent, count in sorted(Counter(largest.tolist()).items(), reverse=True):
    print(f"{2**exponent:6d}  {count / games:6.1%} of {games} games")
