"""Pictures of environments: `render_mode="rgb_array"`."""

import copy
import subprocess
import sys
from types import ModuleType

import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo

import operant
from operant import shapes

#: The line of text above a picture, in pixels.
HEADER = 28
# Pixels between the frames of a sheet.
GUTTER = 4


@operant.world(observation_space=Box(0, 8, (1,)), action_space=Discrete(2), max_episode_steps=7, view=((0, 0), (8, 2)))
class Ahead:
    """A square that moves right, whatever the action is."""

    x: operant.Float

    def reset(self, draws):
        return self.State(x=0.0)

    def step(self, s, action, draws):
        s.x = s.x + 1.0
        return s, 0.5, False

    def observe(self, s):
        return [s.x]

    def draw(self, s):
        return [shapes.rectangle((s.x + 0.5, 1.0), 1.0, 2.0, tone="accent")]


def picture(env):
    frame = env.render()
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    return frame


def test_pictures_are_the_frames_of_a_film(tmp_path):
    Ahead.save(tmp_path / "ahead.world")
    command = [sys.executable, "-m", "operant", "play", "./ahead.world", "--record", "sheet.png"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    sheet = cv2.imread(str(tmp_path / "sheet.png"))[:, :, ::-1]
    env = operant.make(Ahead, render_mode="rgb_array")
    env.reset()
    frames = [picture(env)]
    for _ in range(7):
        env.step(0)
        frames.append(picture(env))
    height, width, _ = frames[0].shape
    assert sheet.shape == (2 * height + GUTTER, 4 * width + 3 * GUTTER, 3)
    for number, frame in enumerate(frames):
        row, column = divmod(number, 4)
        filmed = sheet[row * (height + GUTTER) :, column * (width + GUTTER) :][:height, :width]
        np.testing.assert_array_equal(frame[HEADER:], filmed[HEADER:])
        if number:
            assert (frame[HEADER:] != frames[number - 1][HEADER:]).any()
            # The line of text counts steps.
            assert (frame[:HEADER] != frames[number - 1][:HEADER]).any()


def test_vector_environments_have_a_picture_of_each():
    envs = operant.make_vec("cartpole", 3, seed=5, render_mode="rgb_array", autoreset_mode="next_step")
    envs.reset()
    alone = operant.make("cartpole", seed=5, render_mode="rgb_array")
    alone.reset()
    for step in range(12):
        pictures = envs.render()
        assert len(pictures) == 3 and all(one.shape == pictures[0].shape for one in pictures)
        if step == 0:
            np.testing.assert_array_equal(pictures[0], picture(alone))
        envs.step(np.zeros(3, np.int64))  # the episodes of CartPole end after about 10 steps
    again = copy.deepcopy(envs)
    for one, other in zip(envs.render(), again.render(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_gymnasium_makes_and_checks_them():
    for mode in ("rgb_array", "rgb_array_list"):
        env = gymnasium.make("operant/CartPole-v1", render_mode=mode)
        assert env.metadata["render_fps"] == 50
        env.reset(seed=1)
        env.step(0)
        frames = env.render()
        assert (frames.shape[2] == 3) if mode == "rgb_array" else len(frames) == 2
    check_env(gymnasium.make("operant/CartPole-v1", render_mode="rgb_array").unwrapped)
    with gymnasium.make_vec("operant/CartPole-v1", num_envs=2, render_mode="rgb_array") as envs:
        envs.reset()
        assert len(envs.render()) == 2


def test_record_video_writes_each_frame(tmp_path, monkeypatch):
    """With a stand-in for moviepy, which encodes the frames."""
    written = []

    class ImageSequenceClip:
        def __init__(self, frames, fps):
            self.frames, self.fps = list(frames), fps

        def write_videofile(self, path, **_):
            written.append((path, self.fps, self.frames))

    for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = ImageSequenceClip
    env = RecordVideo(gymnasium.make("operant/CartPole-v1", render_mode="rgb_array"), str(tmp_path / "films"), episode_trigger=lambda number: True)
    lengths = []
    for seed in range(2):
        env.reset(seed=seed)
        length, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(0)
            length, ended = length + 1, terminated or truncated
        lengths.append(length)
    env.close()
    assert [len(frames) for _, _, frames in written] == [length + 1 for length in lengths]
    for _, fps, frames in written:
        assert fps == 50 and all(frame.shape == frames[0].shape and frame.dtype == np.uint8 for frame in frames)
        assert (frames[0] != frames[-1]).any()


def test_what_cannot_be_drawn_is_refused():
    @operant.world(observation_space=Box(0, 1, (1,)), action_space=Discrete(2), max_episode_steps=7)
    class Unseen:
        x: operant.Float

        def reset(self, draws):
            return self.State(x=0.0)

        def step(self, s, action, draws):
            return s, 0.5, False

        def observe(self, s):
            return [s.x]

    with pytest.raises(ValueError, match="render_mode: unseen has no picture; give its class a method `draw`"):
        operant.make(Unseen, render_mode="rgb_array")
    for make in (operant.make, operant.make_vec):
        with pytest.raises(ValueError, match="render_mode: expected 'rgb_array' or None, got 'human'; `operant play` shows"):
            make("cartpole", render_mode="human")
    with pytest.raises(ValueError, match="render_mode: environments on a GPU have no pictures"):
        operant.make_vec("cartpole", 4, device="cuda", render_mode="rgb_array")
    for env in (operant.make("cartpole", render_mode="rgb_array"), operant.make_vec("cartpole", 2, render_mode="rgb_array")):
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.render()
        env.close()
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            env.render()
    env = operant.make("cartpole")
    env.reset()
    assert env.render() is None and operant.make_vec("cartpole", 2).render() is None
