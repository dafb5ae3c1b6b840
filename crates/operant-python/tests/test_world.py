"""Worlds written in Python: the examples, files, processes, training, and what `operant train file.py:Class` runs."""

import hashlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import test_train
from gymnasium.utils.env_checker import data_equivalence
from test_train import weights
from test_vector import MODES, actions_for, assert_equal, trajectory

import operant
from operant import math as om

spaces = gymnasium.spaces
ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "worlds"
FIXTURES = ROOT / "crates" / "operant-env" / "tests" / "data"

place = test_train.place


def example(file, name):
    """A class of examples/worlds."""
    spec = importlib.util.spec_from_file_location(f"example_{file}", EXAMPLES / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


CartPole, Pendulum, Snake, Breakout = (
    example(file, name) for file, name in [("cartpole", "CartPole"), ("pendulum", "Pendulum"), ("snake", "Snake"), ("breakout", "Breakout")]
)
EQUALS = [(CartPole, "cartpole"), (Pendulum, "pendulum"), (Snake, "snake"), (Breakout, "minatar_breakout")]


@operant.world(name="walk", observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Discrete(2), max_episode_steps=30)
class Walk:
    """Stay near the middle."""

    x: operant.Float

    def reset(self, draws):
        return self.State(x=draws.uniform(-1, 1))

    def step(self, s, action, draws):
        s.x = s.x + om.where(action == 1, 0.5, -0.5)
        return s, -abs(s.x), abs(s.x) > 5

    def observe(self, s):
        return [s.x]


@operant.world(name="walk", observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Discrete(2), max_episode_steps=30)
class OtherWalk(Walk):
    """Rules of its own under the same name."""

    def step(self, s, action, draws):
        s.x = s.x + om.where(action == 1, 0.25, -0.25)
        return s, -abs(s.x), abs(s.x) > 5


@operant.world(name="walk", observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2), max_episode_steps=30)
class WideWalk(Walk):
    """The same rules, and observations of another size."""

    def observe(self, s):
        return [s.x, s.x]


def contents(world):
    """The text of a world."""
    path = Path("contents.world")
    world.save(path)
    return path.read_bytes()


# --- The examples


@pytest.mark.parametrize(("world", "name"), EQUALS)
@pytest.mark.parametrize("mode", MODES)
def test_examples_equal_the_built_in_environments(world, name, mode):
    settings = {"num_envs": 32, "seed": 4, "autoreset_mode": mode, "final_obs": "dense"}
    ours, theirs = operant.make_vec(world, **settings), operant.make_vec(name, **settings)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert name == "snake" or ours.max_episode_steps == theirs.max_episode_steps
    assert data_equivalence(ours.reset(), theirs.reset(), exact=True)
    assert data_equivalence(ours.reset(seed=list(range(32))), theirs.reset(seed=list(range(32))), exact=True)
    ends = 0
    for step, action in enumerate(actions_for(ours, steps=400)):
        (*one, info), (*other, their_info) = ours.step(action), theirs.step(action)
        assert data_equivalence(one, other, exact=True), f"step {step}"
        done = one[2] | one[3]
        ends += done.sum()
        assert list(info) == list(their_info)
        if "final_obs" in info:
            last, their_last = (as_parts(some["final_obs"]) for some in (info, their_info))
            assert all(np.array_equal(last[part][done], their_last[part][done]) for part in last), f"step {step}"
        if done.any():
            assert data_equivalence(info["episode"], their_info["episode"], exact=True)
            if mode == "disabled":
                restarts = [envs.reset(options={"reset_mask": done}) for envs in (ours, theirs)]
                assert data_equivalence(*restarts, exact=True)
    assert ends >= 32


def as_parts(obs):
    return obs if isinstance(obs, dict) else {"": obs}


@pytest.mark.parametrize(("world", "name"), EQUALS)
def test_threads_and_the_number_of_environments_change_no_bit(world, name):
    def played(num_envs, **settings):
        envs = operant.make_vec(world, num_envs, seed=7, **settings)
        envs.reset()
        return trajectory(envs, 60)

    assert_equal(played(150, threads=3), played(150, threads=1))
    envs = operant.make_vec(name, 17, seed=7)
    envs.reset()
    assert_equal(played(17), trajectory(envs, 60))


def test_one_environment_and_states():
    env, theirs = operant.make(CartPole, seed=3), operant.make("cartpole", seed=3)
    assert data_equivalence(env.reset(seed=5), theirs.reset(seed=5), exact=True)
    for action in [0, 1, 1, 0, 1, 1, 1]:
        assert data_equivalence(env.step(action), theirs.step(action), exact=True)
    again = pickle.loads(pickle.dumps(env))
    assert data_equivalence(again.step(0), theirs.step(0), exact=True)
    envs = operant.make_vec(CartPole, 8, seed=3)
    envs.reset()
    trajectory(envs, 30)
    state, other = envs.get_state(), operant.make_vec(CartPole, 8)
    other.set_state(state)
    assert_equal(trajectory(other, 50, seed=1), trajectory(envs, 50, seed=1))
    many = operant.make_vec(CartPole, 8, seed=1, autoreset_mode="next_step")
    one = operant.make_vec("cartpole", 8, seed=1, autoreset_mode="next_step")
    many.reset(), one.reset()
    horizon = many.step_many(actions_for(one, steps=50))
    for step, action in enumerate(actions_for(one, steps=50)):
        np.testing.assert_array_equal(horizon["obs"][step], one.step(action)[0])


@pytest.mark.parametrize(("world", "name"), [(CartPole, "cartpole"), (Pendulum, "pendulum"), (Snake, "snake"), (Breakout, "breakout")])
def test_fixtures_are_recorded_from_the_examples(world, name):
    """Rust's tests read them. After a change of what is recorded, write them again: `CartPole.save(path)`."""
    assert contents(world) == (FIXTURES / f"{name}.world").read_bytes(), f"{FIXTURES / name}.world is of another version of the example"


@pytest.mark.parametrize(("world", "name"), EQUALS[2:])
def test_pictures_equal_those_of_the_built_in_environments(world, name):
    def picture(env):
        command = [sys.executable, "-m", "operant", "envs", env]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return shown.split("A first state:")[1].split("Train it:")[0]

    world.save("shown.world")
    assert picture("shown.world") == picture(name)


def test_a_state_without_a_legal_action_is_an_error(tmp_path):
    @operant.world(name="stuck", observation_space=spaces.Box(0, 9, (1,)), action_space=spaces.Discrete(3), max_episode_steps=8)
    class Stuck:
        t: operant.Uint

        def __init__(self, end):
            self.end = end

        def reset(self, draws):
            return self.State(t=0)

        def step(self, s, action, draws):
            s.t = s.t + 1
            return s, om.to_float(action), s.t == self.end

        def observe(self, s):
            return [om.to_float(s.t)]

        def legal(self, s):
            return [s.t < 3, False, s.t < 3]

    settings = {"run_dir": tmp_path, "ring": False, "seed": 1, "num_envs": 16, "num_steps": 16, "total_timesteps": 512, "eval_episodes": 2}
    with pytest.raises(RuntimeError, match="(?s)stuck: no action is legal in environment 0, whose episode has not ended.*`legal`"):
        operant.train(Stuck(5), **settings)
    # An episode may end in such a state.
    run = operant.train(Stuck(3), **settings)
    assert run.result["eval_return_mean"] in (0, 2, 4, 6)
    envs = operant.make_vec(Stuck(5), 40, seed=1, threads=1)
    envs.reset()
    with pytest.raises(RuntimeError, match="no action is legal in environment 0"):
        envs.rollout(run.policy, 6)


def test_first_states_may_be_made_ahead_of_time():
    space = spaces.Box(-10, 10, (1,))

    @operant.world(observation_space=space, action_space=spaces.Discrete(2), max_episode_steps=30, ahead=True)
    class Early(Walk):
        pass

    assert "#define ENV_AHEAD" in Early.emit() and "#define ENV_AHEAD" not in Walk.emit()
    Early.save("early.world")
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    worlds = [(Early, 1), (operant.load_world("early.world"), 2), (Walk, 1)]
    envs = [operant.make_vec(world, 40, seed=1, threads=threads, autoreset_mode=mode) for world, threads in worlds]
    starts = [one.reset()[0] for one in envs]
    early, loaded, walk = (trajectory(one, 70) for one in envs)
    assert np.array_equal(starts[0], starts[2])
    assert_equal(early, loaded)
    # The following episodes begin with other draws.
    assert_equal(early[:5], walk[:5])
    assert not np.array_equal(early[-1][0], walk[-1][0])


# --- Files


def test_files_hold_the_world():
    Walk.save("walk.world")
    loaded = operant.load_world("walk.world")
    assert isinstance(loaded, operant.World) and loaded.name == "walk" and repr(loaded) == "<operant.World walk>"
    loaded.save(Path("again.world"))
    assert Path("again.world").read_bytes() == Path("walk.world").read_bytes()
    assert sorted(Path().glob("*.world*")) == [Path("again.world"), Path("walk.world")]
    assert loaded.emit() == Walk.emit() == Walk().emit()
    ours, theirs = operant.make_vec(loaded, 8, seed=1), operant.make_vec(Walk, 8, seed=1)
    assert data_equivalence(ours.reset(), theirs.reset(), exact=True)
    assert_equal(trajectory(ours), trajectory(theirs))
    with pytest.raises(OSError, match="absent"):
        operant.load_world("absent.world")
    with pytest.raises(OSError, match="absent"):
        Walk.save("absent/walk.world")
    Path("taken.world").mkdir()
    with pytest.raises(OSError, match="taken"):
        Walk.save("taken.world")
    assert sorted(path.name for path in Path().glob(".*")) == []


def test_special_files_stay_and_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match=f"{name}: it is not a regular file"):
            operant.load_world(tmp_path / name)
    os.symlink("/dev/null", tmp_path / "null")
    Walk.save(tmp_path / "null")
    assert (tmp_path / "null").is_symlink()


def changed(**changes):
    """A world's file with other values of some keys."""
    return json.dumps({**json.loads(contents(Walk)), **changes}).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (lambda: contents(Walk)[:-100], "it is not a world: "),
        (lambda: contents(Walk)[:10], "it is not a world: EOF"),
        (lambda: b"", "it is not a world: EOF"),
        (lambda: b"\x89PNG\r\n\x1a\n\0\0", "it is not a world: expected value"),
        (lambda: b"[1, 2]", "it is not a world: "),
        (lambda: b'{"a": 1}', "it is not a world: missing field `operant_world`"),
        (lambda: changed(operant_world=2), "it has version 2 of the format; this program reads up to 1, so update operant"),
        (lambda: changed(operant_world="1"), "it is not a world: invalid type"),
        (lambda: changed(more=1), "it is not a world: unknown field `more`"),
        (lambda: changed(state=[{"name": "x", "kind": "uint"}]), "it is damaged: "),
        (lambda: changed(state=[]), "it is damaged: a state has 0 numbers"),
        (lambda: contents(Walk).replace(b"float_abs", b"float_cube"), "it is not a world: unknown variant `float_cube`"),
        (lambda: contents(Walk).replace(b"next.x", b"next.y"), "it is damaged: "),
        (lambda: contents(Walk).replace(b'"reward"', b'"rewards"'), "it is damaged: step returns rewards, which does not exist"),
        (lambda: b"[" * 100_000, "it is not a world: "),
    ],
)
def test_damaged_files_are_one_clear_error(content, says):
    path = Path("bad.world")
    path.write_bytes(content())
    with pytest.raises(ValueError, match=says) as raised:
        operant.load_world(path)
    message = str(raised.value)
    assert message.startswith("bad.world: it ") and message.count("bad.world") == 1
    assert "panicked" not in message and "bug in operant" not in message and raised.value.__cause__ is None


def test_every_flipped_byte_is_an_error_or_another_world():
    content = contents(Walk)
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1 + position % 255
        try:
            envs = operant.make_vec(operant.World(bytes(damaged)), 4, seed=1)
        except ValueError as error:
            assert "bug in operant" not in str(error)
            continue
        envs.reset()
        envs.step(envs.action_space.sample())


def test_a_world_cannot_have_the_name_of_a_built_in_environment():
    @operant.world(name="cartpole", observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Discrete(2), max_episode_steps=9)
    class Mine(Walk):
        pass

    Mine.save("mine.world")
    for use in (operant.make_vec, operant.make, lambda world: operant.train(world, total_timesteps=1024)):
        for world in (Mine, operant.load_world("mine.world")):
            with pytest.raises(
                ValueError, match=r'there is a built-in environment cartpole; give the world another name.*name="my_cartpole"'
            ):
                use(world)
    assert not Path("runs").exists()


def test_defaults_of_a_declaration():
    @operant.world
    class HTTPWalk2(Walk):
        """Stays near the middle.

        More of it.
        """

        observation_space = spaces.Box(-10, 10, (1,))
        action_space = spaces.Discrete(2)
        max_episode_steps = 7

    envs = operant.make_vec(HTTPWalk2, 2)
    assert (envs.name, envs.max_episode_steps) == ("http_walk2", 7)
    assert summary_of("http_walk2") == "Stays near the middle"
    assert operant.make_vec(HTTPWalk2, 2, max_episode_steps=9).max_episode_steps == 9
    # By its name, once it was used.
    assert operant.make_vec("http_walk2", 2).max_episode_steps == 7
    with pytest.raises(ValueError, match="has no option `size`"):
        operant.make_vec(HTTPWalk2, 2, size=3)


def summary_of(name):
    return next(spec["summary"] for spec in operant._core.specs() if spec["name"] == name)


def test_a_summary_is_one_line():
    """The emitted code has it in a comment."""

    @operant.world(
        summary="one\n#error two", observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Discrete(2), max_episode_steps=7
    )
    class Lines(Walk):
        pass

    operant.make_vec(Lines, 2)
    assert summary_of("lines") == "one #error two" and "\n#error" not in Lines.emit()


class Sized:
    """An object has settings, and spaces of its own."""

    x: operant.Float
    flags: operant.Bool[3]

    action_space = spaces.Discrete(2)

    def __init__(self, size=1, step_size=0.5):
        self.size, self.step_size = size, step_size
        self.observation_space = spaces.Box(-10, 10, (size,))

    def reset(self, draws):
        return {"x": 0, "flags": [True, False, draws.uniform() < 0.5]}

    def step(self, s, action, draws):
        return {"x": s.x + self.step_size, "flags": s.flags}, 1, False

    def observe(self, s):
        return [s.x] * self.size


def test_objects_have_settings():
    world = operant.world(max_episode_steps=5)(Sized)
    for size, step_size in [(1, 0.5), (3, 0.25)]:
        envs = operant.make_vec(world(size, step_size), 2)
        envs.reset()
        np.testing.assert_array_equal(envs.step(np.zeros(2, int))[0], np.full((2, size), step_size))
    # A class is used with its defaults.
    assert operant.make_vec(world, 2).single_observation_space.shape == (1,)


def test_a_class_without_the_decorator_inherits_a_world():
    class Faster(Walk):
        def step(self, s, action, draws):
            s.x = s.x + 2
            return s, 0.0, None

    with pytest.raises(operant.TraceError, match=rf"{__file__}:{Faster.step.__code__.co_firstlineno}: step returns .* for terminated"):
        operant.make_vec(Faster)


# --- Processes and threads


REMOTE = """
import hashlib, pickle, sys
import numpy as np
envs, world, first = pickle.load(open(sys.argv[1], "rb"))
assert "test_world" not in sys.modules
import operant
found = hashlib.sha256()
for action in np.random.default_rng(0).integers(2, size=(50, 8)):
    for array in envs.step(action)[:4]:
        found.update(np.ascontiguousarray(array))
assert np.array_equal(operant.make_vec(world, 8, seed=1).reset()[0], first)
print(found.hexdigest(), operant.make_vec("walk", 2).name)
"""


def test_environments_continue_in_another_process():
    envs = operant.make_vec(Walk, 8, seed=1)
    first, _ = envs.reset()
    trajectory(envs, 20)
    Walk.save("walk.world")
    Path("envs.pickle").write_bytes(pickle.dumps((envs, operant.load_world("walk.world"), first)))
    shown = subprocess.run([sys.executable, "-c", REMOTE, "envs.pickle"], capture_output=True, text=True, check=True).stdout
    found = hashlib.sha256()
    for action in np.random.default_rng(0).integers(2, size=(50, 8)):
        for array in envs.step(action)[:4]:
            found.update(np.ascontiguousarray(array))
    assert shown.split() == [found.hexdigest(), "walk"]


def test_a_world_is_pickled_by_its_content():
    Walk.save("walk.world")
    world = operant.load_world("walk.world")
    again = pickle.loads(pickle.dumps(world))
    assert again.content == world.content and again.name == "walk"


def test_worlds_are_recorded_in_several_threads():
    alone = {world: contents(world) for world in (Snake, Breakout)}
    found, lock = [], threading.Lock()

    def record(world):
        for _ in range(3):
            text = operant._world.recorded(world).content
            with lock:
                found.append((world, text))

    threads = [threading.Thread(target=record, args=(world,)) for world in (Snake, Breakout, Snake)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 9 and all(text == alone[world] for world, text in found)


# --- Training


def test_threads_use_worlds_of_one_name():
    def shapes(world, found):
        found.extend(operant.make_vec(world, 1).single_observation_space.shape for _ in range(100))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        found = [[], []]
        threads = [threading.Thread(target=shapes, args=pair) for pair in zip((Walk, WideWalk), found, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == [[(1,)] * 100, [(2,)] * 100]


def short(world, **settings):
    # The learning rate does not depend on `total_timesteps`, so that a run that was continued equals a longer one.
    own = {"seed": 3, "total_timesteps": 4096, "num_envs": 16, "num_steps": 64, "lr_schedule": "constant", "eval_episodes": 5}
    return operant.train(world, **{**own, **settings})


def test_training_a_world_gives_the_bits_of_the_built_in_environment():
    # Those of the built-in environment's preset.
    settings = {"learning_rate": 1e-3, "update_epochs": 4, "clip_vloss": False, "ent_coef": 0.0, "target_kl": 0.0, "eval_interval": 5}
    ours, theirs = short(CartPole, name="ours", **settings), short("cartpole", name="theirs", **settings)
    assert weights(ours) == weights(theirs)
    assert ours.result["env"] == "my_cartpole" and ours.result["eval_return_mean"] == theirs.result["eval_return_mean"]
    assert ours.result["config"]["solved_at"] == 475.0
    assert weights(ours) != weights(short(CartPole, name="another", **{**settings, "seed": 4}))


ELSEWHERE = """
import json, sys
import numpy as np
import operant
run = operant.Run(sys.argv[1])
obs = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
before = run.policy.env_steps
found = {
    "actions": operant.load(run)(obs).tolist(),
    "eval": run.eval(5)["eval_return_mean"],
    "env": run.info()["env"],
    "steps": operant.resume(run, total_timesteps=8192).policy.env_steps,
    "state": run.state,
}
print(json.dumps(found))
"""


def test_a_run_keeps_its_world():
    run, whole = short(CartPole, run_dir="mine"), short(CartPole, name="whole", total_timesteps=8192)
    kept = operant.load_world(run.dir / "env.world")
    assert kept.name == "my_cartpole" and run.info()["env"] == "my_cartpole" and run.dir.parent == Path("mine").resolve()
    envs, theirs = operant.make_vec(kept, 4, seed=1), operant.make_vec("cartpole", 4, seed=1)
    envs.reset(), theirs.reset()
    assert_equal(trajectory(envs), trajectory(theirs))
    obs = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    expected = {"actions": run.policy(obs).tolist(), "eval": run.eval(5)["eval_return_mean"], "env": "my_cartpole", "steps": 8192}
    # A process that never imports the class evaluates, loads and continues it, with the bits of a run that did not stop.
    shown = subprocess.run([sys.executable, "-c", ELSEWHERE, run.dir], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == {**expected, "state": "finished"}
    assert weights(run) == weights(whole)
    assert run.policy.env == "my_cartpole" and pickle.loads(pickle.dumps(run.policy)).env_steps == 8192
    played = envs.rollout(run.policy, 10)
    assert played["actions"].shape == (10, 4)


def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped():
    def stop(record):
        if record["update"] == 2:
            raise StopIteration

    with pytest.raises(StopIteration):
        short(Breakout, name="parts", on_update=stop)
    parts = operant.Run("runs/parts")
    assert parts.state == "preempted"
    resumed, whole = operant.resume(parts), short(Breakout, name="whole")
    assert weights(resumed) == weights(whole)
    assert resumed.result["eval_return_mean"] == whole.result["eval_return_mean"]


def test_a_run_does_not_depend_on_other_worlds_of_its_name():
    run = short(Walk)
    before, resumed = run.eval(5), short(Walk, name="whole", total_timesteps=8192)
    wide, other = operant.make_vec(WideWalk, 4, seed=1), operant.make_vec(OtherWalk, 4, seed=1)
    assert run.eval(5) == before
    operant.resume(run, total_timesteps=8192)
    assert weights(run) == weights(resumed)
    wide.reset()
    with pytest.raises(ValueError, match="trained in walk, whose spaces are not those of walk"):
        wide.rollout(run.policy, 3)
    other.reset()
    assert other.rollout(run.policy, 3)["actions"].shape == (3, 4)
    with pytest.raises(ValueError, match="walk"):
        other.set_state(operant.make_vec("cartpole", 4).get_state())


@pytest.mark.parametrize("world", [OtherWalk, WideWalk])
def test_another_world_of_the_name_is_refused(world):
    run = short(Walk)
    path = run.dir / "env.world"
    kept = path.read_bytes()
    world.save(path)
    for use in (operant.resume, operant.Run.eval):
        with pytest.raises(ValueError, match="world"):
            use(run)
    path.write_bytes(kept[:100])
    for use in (operant.resume, operant.Run.eval):
        with pytest.raises(ValueError, match=r"env\.world"):
            use(run)
    Snake.save(path)
    for use in (operant.resume, operant.Run.eval):
        with pytest.raises(ValueError, match="the run was trained with walk, but this file contains my_snake"):
            use(run)
    path.write_bytes(kept)
    assert operant.resume(run, total_timesteps=8192).policy.env_steps == 8192


def test_presets_of_a_world_apply():
    def trained(preset, **settings):
        settings_of_world = {"observation_space": spaces.Box(-10, 10, (1,)), "action_space": spaces.Discrete(2), "max_episode_steps": 10}
        world = operant.world(preset=preset, **settings_of_world)(type("Preset", (Walk,), {}))
        return short(world, **settings).result["config"]

    config = trained({"learning_rate": 1e-5, "hidden": [np.int64(16), 8], "anneal_lr": False, "gpu": {"num_envs": 64}})
    assert (config["learning_rate"], config["hidden"], config["lr_schedule"]) == (1e-5, [16, 8], "constant")
    assert trained('learning_rate = 0.5\nactivation = "relu"\n', learning_rate=0.25)["learning_rate"] == 0.25
    for wrong, says in [
        ({"learnin_rate": 1}, '"learnin_rate" is not a configuration key'),
        ({"run_dir": "there"}, "preset sets run_dir, which is not a hyperparameter"),
        ("a = = 3", "not valid TOML"),
    ]:
        with pytest.raises(ValueError, match=says):
            trained(wrong)


# --- Spaces


FILE = """from __future__ import annotations
import gymnasium
import helper
import operant

CONSTANT = 3

@operant.world(
    observation_space=gymnasium.spaces.Box(-1, 1, (1,)),
    action_space=gymnasium.spaces.Discrete(2),
    max_episode_steps=10,
)
class Tiny:
    x: operant.Float; cells: operant.Uint[CONSTANT]
    def reset(self, draws):
        return self.State(x=helper.START, cells=[0] * CONSTANT)
    def step(self, s, action, draws):
        return s, 0.0, False
    def observe(self, s):
        return [s.x]

@operant.world(
    observation_space=gymnasium.spaces.Box(-1, 1, (1,)),
    action_space=gymnasium.spaces.Discrete(2),
    max_episode_steps=10,
)
class Wrong(Tiny):
    def step(self, s, action, draws):
        if s.x > 0:
            return s, 0.0, True
        return s, 1 / 0, False

@operant.world(observation_space=3, action_space=gymnasium.spaces.Discrete(2))
class NoSpace(Tiny):
    pass

@operant.world(observation_space=gymnasium.spaces.Box(-1, 1, (1,)), action_space=gymnasium.spaces.Discrete(2), max_episode_steps=3)
class Divides(Tiny):
    def observe(self, s):
        return [s.x * (1 / 0)]

class Plain:
    pass

print("noise")
tiny = Tiny()
"""


@pytest.fixture
def files(place):
    package = place / "package"
    package.mkdir()
    (package / "worlds.py").write_text(FILE)
    (package / "helper.py").write_text("START = 0.5\n")
    (place / "worlds_here.py").write_text(FILE.replace("import helper", "from package import helper"))
    (place / "raises.py").write_text("import operant\n\ndef f():\n    raise KeyError('no')\n\nf()\n")
    (place / "broken.py").write_text("import operant\nclass A(:\n")
    (place / "imports.py").write_text("import absent_of_it\n")
    (place / "none.py").write_text("class Plain:\n    pass\n")
    return place


def record(*arguments):
    """What the recorder does, and writes to standard error."""
    command = [sys.executable, "-m", "operant._record", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stderr.strip()


def test_recording_of_files_and_modules(files):
    names = ["package/worlds.py:Tiny", f"{files}/package/worlds.py:Tiny", "package/worlds.py:tiny", "worlds_here:Tiny"]
    for number, name in enumerate(names):
        assert record(name, f"{number}.world") == (0, ""), name
        assert operant.load_world(f"{number}.world").name == "tiny"
    assert len({Path(f"{number}.world").read_bytes() for number in range(4)}) == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent.py:Tiny", ["there is no file absent.py"]),
        ("absent:Tiny", ["there is no module absent in", "a file is given as path/to/file.py:Class"]),
        ("package.absent:Tiny", ["there is no module package.absent in"]),
        ("package/worlds.py:Absent", ["package/worlds.py has no Absent; it has Tiny, Wrong, NoSpace, Divides, tiny"]),
        ("none:Absent", ["none has no Absent; it has no class with @operant.world"]),
        ("package/worlds.py:Plain", ["package/worlds.py:Plain is neither a world nor a Gymnasium environment; write @operant.world(...) above a"]),
        ("package/worlds.py:CONSTANT", ["package/worlds.py:CONSTANT is neither a world nor"]),
        ("package/worlds.py:Wrong", ["worlds.py:29: `if`", "operant.math.where"]),
        ("package/worlds.py:NoSpace", ["NoSpace: observation_space: expected a Box"]),
        ("package/worlds.py:Divides", ["ZeroDivisionError: division by zero", "worlds.py:40 in observe"]),
        ("raises:Tiny", ["KeyError: 'no'", "raises.py:6 in <module>", "raises.py:4 in f"]),
        ("broken.py:Tiny", ["SyntaxError", "broken.py, line 2"]),
        ("imports:Tiny", ["ModuleNotFoundError: No module named 'absent_of_it'", "imports.py:1"]),
        ("package/worlds.py:", ["expected module:Class or path/to/file.py:Class, got package/worlds.py:"]),
        ("worlds_here", ["expected module:Class or path/to/file.py:Class, got worlds_here"]),
    ],
)
def test_what_cannot_be_recorded(files, name, says):
    code, error = record(name, "out.world")
    assert code == 1 and not Path("out.world").exists()
    assert all(part in error for part in says), error
    assert "Traceback" not in error and "operant/_" not in error


def test_recording_needs_a_file_to_write(files):
    assert record("worlds_here:Tiny") == (1, "usage: python -m operant._record NAME FILE [PARENT]")
    code, error = record("worlds_here:Tiny", "absent/out.world")
    assert code == 1 and "FileNotFoundError" in error and "Traceback" not in error


def test_the_command_trains_files_and_classes(files):
    Walk.save("walk.world")
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    for name, env in [("walk.world", "walk"), ("worlds_here:Tiny", "tiny"), ("package/worlds.py:Tiny", "tiny")]:
        command = [sys.executable, "-m", "operant", "train", name, "--steps", "2048", "--set", "eval_episodes=1", "--json", "--quiet"]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["env"] == env
    command = [sys.executable, "-m", "operant", "train", "package/worlds.py:Wrong"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 2 and "worlds.py:29: `if`" in ran.stderr and "operant.math.where" in ran.stderr


def test_other_commands_take_worlds_too(files):
    Walk.save("walk.world")
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}

    def operant_says(*arguments, **settings):
        command = [sys.executable, "-m", "operant", *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **settings)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    shown = operant_says("envs", "./walk.world")
    assert "operant train ./walk.world" in shown and "Stay near the middle" in shown
    assert operant_says("emit", "package/worlds.py:Tiny").startswith("// tiny: ")
    assert "total_timesteps" in operant_says("config", "walk.world")
    # Single precision is the default of a world, which has no other.
    played = json.loads(operant_says("replay", "walk.world", input='{"state": [1.0], "actions": [[1], [0]]}'))
    assert played["state"] == [[1.5], [1.0]] and played["reward"] == [-1.5, -1.0]
    row = json.loads(operant_says("bench", "env", "--env", "walk.world", "--envs", 64, "--budget", 1, "--json").splitlines()[0])
    assert row["env"] == "walk" and row["sps_median"] > 0
    operant_says("tune", "walk.world", "--budget", 2)
    assert "[walk]" in Path("operant.toml").read_text()

    # The table of a world in operant.toml does not disturb other environments, and a run needs no class and no file.
    operant_says("train", "walk.world", "--steps", 2048, "--name", "first", "--quiet", "--set", "num_envs=16", "--set", "num_steps=64")
    operant_says("train", "cartpole", "--steps", 1024, "--quiet")
    os.remove("walk.world")
    assert json.loads(operant_says("eval", "first", "--episodes", 2, "--json"))["env"] == "walk"
    operant_says("play", "first", "--record", "first.gif")
    assert Path("first.gif").read_bytes().startswith(b"GIF8")
    resumed = json.loads(operant_says("train", "--resume", "first", "--steps", 4096, "--quiet", "--json"))
    assert resumed["env_steps"] >= 4096
