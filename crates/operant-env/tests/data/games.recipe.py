#!/usr/bin/env python3
"""Random games of Pgx, as digests: games.recipe.py connect_four othello ...

Needs pgx 2.6.0 (with jax). Game g takes at move m the k-th legal action, k = mix(1000 g + m) * count / 2^64, so that the games need no list of moves.
The digest of a game is FNV-1a over 64-bit words: before each move the player (0 the first), the words of the observation and of the legal actions, 32 bits
to a word with the first lowest; after each move 1 + the first player's reward, and whether the game ended; at the end the observation. A line has the
digest of the digests of 20 games.
"""

import gzip
import json
import pathlib
import sys

import jax
import numpy as np
import pgx

GAMES, GROUP = 10_000, 20
OFFSET, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def mix(x):
    """The finaliser of SplitMix64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def fold(digests, words, where):
    for word in words.T:
        digests[where] = (digests[where] ^ word[where].astype(np.uint64)) * PRIME


def words(bits):
    """(N, bits) to (N, words)."""
    count = -(-bits.shape[1] // 32) * 32
    bits = np.pad(bits.astype(np.uint64), ((0, 0), (0, count - bits.shape[1])))
    return (bits.reshape(len(bits), -1, 32) << np.arange(32, dtype=np.uint64)).sum(2, dtype=np.uint64)


def column(numbers):
    return np.asarray(numbers).reshape(-1, 1)


def main(name):
    env = pgx.make(name)
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), GAMES))
    step = jax.jit(jax.vmap(env.step))
    first = np.asarray(state.current_player)
    games, digests = np.arange(GAMES), np.full(GAMES, OFFSET)
    going, moves, results = np.ones(GAMES, bool), 0, np.zeros(3, int)
    for move in range(1000):
        if not going.any():
            break
        legal, obs = np.asarray(state.legal_action_mask), np.asarray(state.observation).reshape(GAMES, -1)
        fold(digests, column(np.asarray(state.current_player) != first), going)
        fold(digests, words(obs), going)
        fold(digests, words(legal), going)
        counts = legal.sum(1).astype(np.uint64)
        k = (mix(np.uint64(1000) * games.astype(np.uint64) + np.uint64(move)) >> np.uint64(32)) * counts >> np.uint64(32)
        actions = (legal.cumsum(1) > column(k)).argmax(1)
        state = step(state, jax.numpy.asarray(actions))
        moves += int(going.sum())
        rewards = np.asarray(state.rewards)[games, first].astype(int)
        ended = np.asarray(state.terminated)
        fold(digests, column(1 + rewards), going)
        fold(digests, column(ended), going)
        over = going & ended
        fold(digests, words(np.asarray(state.observation).reshape(GAMES, -1)), over)
        for result in (-1, 0, 1):
            results[1 + result] += int((over & (rewards == result)).sum())
        going &= ~ended
    lines = [{"env": name, "pgx": pgx.__version__, "games": GAMES, "group": GROUP, "moves": moves, "second_drawn_first": results.tolist()}]
    for group in digests.reshape(-1, GROUP):
        digest = np.full(1, OFFSET)
        for game in group:
            digest = (digest ^ game) * PRIME
        lines.append(f"{int(digest[0]):016x}")
    path = pathlib.Path(__file__).with_name(f"{name}.games.jsonl.gz")
    with gzip.GzipFile(path, "wb", 9, mtime=0) as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    print(lines[0], path.stat().st_size, "bytes")


for game in sys.argv[1:]:
    main(game)
