#!/usr/bin/env python3
"""Games of Pgx: games.recipe.py connect_four othello hex go_9x9 kuhn_poker leduc_poker

Needs pgx 2.6.0 (with jax). Of most games, random ones as digests. Game g takes at move m the k-th legal action, k = mix(1000 g + m) * count / 2^64, so that the games need no list of moves.
The digest of a game is FNV-1a over 64-bit words: before each move the player (0 the first), the words of the observation and of the legal actions, 32 bits
to a word with the first lowest; after each move 1 + the first player's reward, and whether the game ended; at the end the observation. A line has the
digest of the digests of 20 games.

Of Kuhn and Leduc poker, every game: each deal of ranks (of player 0, of player 1, public) and each sequence of actions. A line has the cards, the actions,
the player to move before each (player 0 is the first), Pgx's observation and the legal actions as numbers with the first bit lowest, and player 0's reward at
the end.
"""

import gzip
import itertools
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


def write(name, lines):
    path = pathlib.Path(__file__).with_name(f"{name}.games.jsonl.gz")
    with gzip.GzipFile(path, "wb", 9, mtime=0) as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    print(lines[0], path.stat().st_size, "bytes")


def number(bits):
    return sum(int(bit) << k for k, bit in enumerate(np.asarray(bits).reshape(-1)))


def poker(name, pgx_name, deals):
    """All games after these deals."""
    env = pgx.make(pgx_name)
    begin, step, observe = env.init(jax.random.PRNGKey(0)), jax.jit(env.step), jax.jit(env.observe)
    games = []

    def walk(state, game):
        if bool(state.terminated):
            games.append(game | {"reward": int(state.rewards[0])})
            return
        before = {
            "players": game["players"] + [int(state.current_player)],
            "obs": game["obs"] + [number(observe(state, state.current_player))],
            "legal": game["legal"] + [number(state.legal_action_mask)],
        }
        for action in np.flatnonzero(np.asarray(state.legal_action_mask)).tolist():
            walk(step(state, action), game | before | {"actions": game["actions"] + [action]})

    for cards in deals:
        first = {"_first_player": jax.numpy.int32(0)} if hasattr(begin, "_first_player") else {}
        state = begin.replace(current_player=jax.numpy.int32(0), _cards=jax.numpy.int32(cards), **first)
        walk(state, {"cards": list(cards), "actions": [], "players": [], "obs": [], "legal": []})
    write(name, [{"env": pgx_name, "pgx": pgx.__version__, "games": len(games)}, *games])


def main(name):
    if name == "kuhn_poker":
        return poker(name, name, itertools.permutations(range(3), 2))
    if name == "leduc_poker":
        return poker(name, "leduc_holdem", sorted(set(itertools.permutations([0, 0, 1, 1, 2, 2], 3))))
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
    if name.startswith("go"):
        lines[0]["superko"] = int(state._x.is_psk.sum())
    for group in digests.reshape(-1, GROUP):
        digest = np.full(1, OFFSET)
        for game in group:
            digest = (digest ^ game) * PRIME
        lines.append(f"{int(digest[0]):016x}")
    write(name, lines)


for game in sys.argv[1:]:
    main(game)
