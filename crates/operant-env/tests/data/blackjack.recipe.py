"""Gymnasium's Blackjack-v1 with its default rule. The state: sum with aces as 1, whether there is an ace and number of cards of
the player; the dealer's open card; the same of the dealer. The time limit is operant's."""

from toy_text import EXACT, ToyText

SEED, STEP_NOISE, REFERENCE = 2_007, 0.0, EXACT


class Blackjack(ToyText):
    def set(self, state):
        total, ace, count, first, dealer, dealer_ace, dealer_count = state
        self.inner.player = hand(total, ace, count)
        second = dealer - first
        assert dealer_count == 2 and dealer_ace == (1 in (first, second))
        self.inner.dealer = [first, second]

    def state(self):
        facts = lambda cards: [int(sum(cards)), int(1 in cards), len(cards)]
        return [*facts(self.inner.player), int(self.inner.dealer[0]), *facts(self.inner.dealer)]


def hand(total, ace, count):
    """Some cards with that sum and number, with an ace or without."""
    cards, least = [1] if ace else [], 1 if ace else 2
    for left in range(count - len(cards) - 1, -1, -1):
        cards.append(min(10, total - sum(cards) - least * left))
    assert sum(cards) == total and len(cards) == count and (1 in cards) == bool(ace), (total, ace, count, cards)
    return cards


def environment(**options):
    return Blackjack("Blackjack-v1", options, env="blackjack" if options else None, time_limit=20)


def cases(c, rng):
    env = c.env
    dealers = [(1, 10), (10, 1), (1, 1), (2, 2), (10, 10), (6, 10), (5, 1), (9, 7), (3, 2)]
    hands = [(11, 1, 2), (11, 1, 3), (20, 0, 2), (21, 0, 3), (21, 1, 4), (12, 0, 2), (12, 1, 3), (4, 0, 2), (2, 1, 2), (17, 0, 3)]
    for first, second in dealers:
        for player in hands:
            for action in (0, 0, 1):
                env.seed += 1
                c.single([*player, first, first + second, int(1 in (first, second)), 2], action)
    longest = max(len(case["draws"][0]) for case in c.cases if "draws" in case)
    for env.seed in range(1_000, 1_120):
        state = env.reset_state(env.seed)
        c.episode(state, [int(a) for a in rng.integers(0, 2, 20)])
    assert longest >= 4
    rewards = {r for e in c.expected for r in e["reward"]}
    assert rewards == ({-1.0, 0.0, 1.0, 1.5} if env.options.get("natural") and not env.options.get("sab", True) else {-1.0, 0.0, 1.0})
