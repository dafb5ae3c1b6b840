"""PyTorch modules take observations and give actions as the environment has them, in every space."""

import echo_envs
import numpy as np
import pytest
import test_gym
import torch
from test_own_spaces import assert_same, played, stacked

from operant import _translate

place = test_gym.place


def mapped(function, value):
    if isinstance(value, dict):
        return {key: mapped(function, inner) for key, inner in value.items()}
    return tuple(mapped(function, inner) for inner in value) if isinstance(value, tuple) else function(value)


@pytest.mark.parametrize("number", range(len(echo_envs.ECHOES)))
def test_actions_of_a_module_are_those_of_the_policy(number):
    run, records = played(number)
    policy, module = run.policy, run.policy.to_torch()
    spaces = policy.metadata["spaces"]
    many = stacked(echo_envs.ECHOES[number][0], [obs for obs, _, _ in records])
    masks = None
    if policy.metadata["action_mask"]:
        masks = np.stack([_translate.legal_choices(spaces["action"], mask) for _, mask, _ in records])
    tensors, mask = mapped(torch.from_numpy, many), None if masks is None else torch.from_numpy(masks)
    assert_same(mapped(lambda it: it.numpy(), module.act(tensors, mask)), policy(many, action_mask=masks), exact=False)
    drawn = mapped(lambda it: it.numpy(), module.act(tensors, mask, deterministic=False))
    assert _translate.row_of(spaces["action"], drawn, 0) in echo_envs.ECHOES[number][1]
    for part in module.parts:
        if part.type == "index":
            first = torch.zeros(part.get_buffer("below").shape, dtype=torch.int64) if part.start is None else part.start
            for outside in (first - 1, first + part.get_buffer("below")):
                with pytest.raises(ValueError, match="obs: expected whole numbers within their space"):
                    part.check(outside.reshape(1, *[1] * (part.ndim - 2), -1) if part.ndim > 1 else outside)
    for wrong in [None, torch.zeros_like(mask), mask * 2, mask[:, 1:]] if mask is not None else [torch.ones(len(records), 3)]:
        with pytest.raises(ValueError, match="action_mask: "):
            module.act(tensors, wrong)
