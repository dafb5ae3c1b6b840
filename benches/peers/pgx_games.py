#!/usr/bin/env python3
"""Random play of Pgx's games on one core: pgx_games.py connect_four othello.

Needs pgx 2.6.0 with jax on the CPU. Prints moves per CPU second of N games side by side, each of which begins again when it ends, beside `operant bench env
--env GAME --threads 1 --envs N`. Both draw from all actions: an illegal one loses, and the next game begins. Compilation is not counted. JAX may use more than one core: CPU seconds are those of the process.
"""

import argparse
import time

import jax
import pgx
from pgx.experimental import auto_reset

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("games", nargs="+")
parser.add_argument("--envs", type=int, default=2048)
parser.add_argument("--moves", type=int, default=200, help="of each game, between two measurements")
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args()

for name in options.games:
    env = pgx.make(name)
    step = jax.vmap(auto_reset(env.step, env.init))

    def move(carry, _, step=step, env=env):
        state, key = carry
        key, own, chance = jax.random.split(key, 3)
        action = jax.random.randint(own, (options.envs,), 0, env.num_actions)
        state = step(state, action, jax.random.split(chance, options.envs))
        return (state, key), state.rewards.sum()

    play = jax.jit(lambda carry, move=move: jax.lax.scan(move, carry, None, options.moves))
    carry = (
        jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), options.envs)),
        jax.random.PRNGKey(1),
    )
    carry, _ = jax.block_until_ready(play(carry))
    for _ in range(options.rounds):
        begun = time.process_time()
        carry, _ = jax.block_until_ready(play(carry))
        seconds = time.process_time() - begun
        print(
            f"{name}, pgx {pgx.__version__}: {options.envs * options.moves / seconds:,.0f} moves per CPU second"
        )
