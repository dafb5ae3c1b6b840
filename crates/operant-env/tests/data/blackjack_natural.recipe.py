"""Gymnasium's Blackjack-v1 where an ace and a ten pay 1.5."""

from reference import recipe

blackjack = recipe("blackjack")
SEED, STEP_NOISE, REFERENCE = 2_008, 0.0, blackjack.REFERENCE
cases = blackjack.cases


def environment():
    return blackjack.environment(natural=True, sab=False)
