"""Metrics of the environment's own: worlds in Python, Gymnasium environments, built-in worlds."""

import json

import gymnasium
import numpy as np
import pytest
import test_gym

import operant
from operant import math as om

spaces = gymnasium.spaces
place = test_gym.place


def short(env, num_envs, **settings):
    return operant.train(env, **{"num_envs": num_envs, "total_timesteps": num_envs * 64, "num_steps": 16, "eval_episodes": 10, **settings})


@operant.world(name="flip", observation_space=spaces.Box(0, 10, (1,)), action_space=spaces.Discrete(2), max_episode_steps=6)
class Flip:
    """The first step ends the episode with action 1, otherwise it lasts 6 steps."""

    t: operant.Uint

    def reset(self, draws):
        return self.State(t=0)

    def step(self, s, action, draws):
        s.t = s.t + 1
        return s, om.where(action == 1, 1.0, 0.0), action == 1

    def observe(self, s):
        return [om.to_float(s.t)]

    def metrics(self, s, reward, terminated):
        return {"success": terminated, "last_step": s.t, "last_reward": reward * 2}


def with_metrics(measure):
    """The world with another `metrics`."""
    return operant.world(
        name="flip", observation_space=spaces.Box(0, 10, (1,)), action_space=spaces.Discrete(2), max_episode_steps=6
    )(type("Flip", (Flip,), {"metrics": measure, "__annotations__": {"t": operant.Uint}}))


def test_a_world_measures_its_episodes(place):
    records = []
    run = short(Flip, 32, on_update=records.append)
    curve = run.metrics()
    assert curve.dtype.names[-3:] == ("success", "last_step", "last_reward")
    ended = curve["episodes"] > np.concatenate([[0], curve["episodes"][:-1]])
    assert ended.all() and (0 < curve["success"]).all() and (curve["success"] <= 1).all()
    # What the return and the length say about the same episodes.
    np.testing.assert_allclose(curve["success"], curve["episodic_return"], rtol=1e-6)
    np.testing.assert_allclose(curve["last_step"], curve["episodic_length"], rtol=1e-6)
    np.testing.assert_allclose(curve["last_reward"], 2 * curve["episodic_return"], rtol=1e-6)
    assert [record["last_step"] for record in records] == curve["last_step"].tolist()
    result = json.loads((run.dir / "result.json").read_text())
    assert set(result["eval_metrics"]) == {"success", "last_step", "last_reward"}
    assert result["eval_metrics"]["success"] == pytest.approx(result["eval_return_mean"])
    assert run.eval(episodes=10)["eval_metrics"] == result["eval_metrics"]
    assert f">success</th><td style='text-align:left'>{result['eval_metrics']['success']:.3f}<" in run._repr_html_()


def test_a_world_has_a_score_of_its_rates(place):
    def measure(self, s, reward, terminated):
        rates = {f"rate_{k}": s.t > k for k in range(6)}
        return rates | {"score": list(rates)}

    run = short(with_metrics(measure), 32)
    curve, evaluated = run.metrics(), run.result["eval_metrics"]

    def score(means):
        return np.expm1(np.mean([np.log1p(100 * means[f"rate_{k}"]) for k in range(6)], axis=0))

    assert (curve["rate_0"] == 1).all() and (curve["rate_5"] < 1).all()
    np.testing.assert_allclose(curve["score"], score(curve), rtol=1e-12)
    assert evaluated["score"] == pytest.approx(score(evaluated)) and run.eval(episodes=10)["eval_metrics"] == evaluated


@pytest.mark.parametrize(("returned", "says"), [
    ({"sps": 1.0}, "every run has a metric of that name"),
    ({"run": 1.0}, "another meaning in JSON"),
    ({"Success": 1.0}, "lower-case letters"),
    ({f"m{k}": 1.0 for k in range(33)}, "33 metrics; 32 are possible"),
    ({"success": 1.0, "score": ["succes"]}, 'the score of "succes", which is not measured'),
    ({"success": 1.0, "score": ["success"], "late": 1.0}, "\"late\": it is measured, and stands after a score"),
    ({"success": "yes"}, "returns 'yes' for success"),
    ({}, "returns a dictionary of numbers"),
    (1.0, "returns a dictionary of numbers"),
])  # fmt: skip
def test_mistakes_in_metrics_are_named(place, returned, says):
    with pytest.raises((TypeError, ValueError, operant.TraceError), match=says):
        short(with_metrics(lambda self, s, reward, terminated: returned), 16)


def test_gymnasium_environments_report_what_info_has(place):
    metrics = {"metrics": ["is_success", "score", "never"]}
    with pytest.warns(UserWarning, match="the first 10 episodes ended with no info.\"never\"") as shown:
        run = short("gym_envs:Scored", 4, env_options=metrics)
    assert len(shown) == 1
    curve = run.metrics()
    assert curve.dtype.names[-3:] == ("is_success", "score", "never")
    assert (curve["is_success"] == 1).all() and np.isnan(curve["never"]).all()
    # The score is the length of the episode and a half.
    np.testing.assert_allclose(curve["score"], curve["episodic_length"] + 0.5)
    assert json.loads((run.dir / "result.json").read_text())["eval_metrics"] == {"is_success": 1.0, "score": 10.5}
    with pytest.raises(RuntimeError, match=r"info\['word'\] is 'high', not a number"):
        short("gym_envs:Scored", 4, env_options={"metrics": "word"})
    with pytest.raises(ValueError, match="every run has a metric of that name"):
        short("gym_envs:Scored", 4, env_options={"metrics": "sps"})


def test_a_misspelt_key_of_info_is_warned_about(place):
    says = r"scored: env.metrics: .* no info\[\"is_succes\"\] \(info had 'is_success', 'score', 'word'\); correct env.metrics"
    with pytest.warns(UserWarning, match=says):
        short("gym_envs:Scored", 4, env_options={"metrics": ["score", "is_succes"]})
    with pytest.warns(UserWarning, match=r"\(info had no keys\); correct env.metrics"):
        short("gym_envs:Steady", 4, env_options={"metrics": ["score"], "workers": 4})


def test_built_in_worlds_have_metrics(place):
    run = short("snake", 16, total_timesteps=16 * 128 * 2, num_steps=128)
    curve = run.metrics()
    np.testing.assert_allclose(curve["snake_length"], 3 + curve["episodic_return"], rtol=1e-6)
