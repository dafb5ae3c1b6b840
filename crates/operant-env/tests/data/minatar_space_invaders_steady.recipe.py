"""MinAtar's Space Invaders with sticky actions and without ramping, in whole episodes."""

from reference import longest, recipe, steady

base = recipe("minatar_space_invaders")
SEED, STEP_NOISE, REFERENCE = 1_018, 0.0, base.REFERENCE


def environment():
    return base.SpaceInvaders("SpaceInvaders", time_limit=5_000, sticky_action_prob=0.25, module="space_invaders", ramping=False, env="minatar_space_invaders")


def cases(c, rng):
    player = lambda: base.shooter(rng)
    steady(c, rng, player, range(10, 40))
    # The last aliens of a wave, then the next wave, which would be faster.
    few = base.at(aliens=base.cells((2, 5), (3, 4)), own=base.cells((8, 5)), interval=12, ramps=0)
    longest(c, few, player, range(10, 40))
    finals = [line["final_state"] for line in c.long if line["return"] > 2]
    assert finals and max(line["return"] for line in c.long if line["state"] == few) > 2
    assert {final[5] for final in finals} == {12}, "the interval stays"
