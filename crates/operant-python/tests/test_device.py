"""Environments on a GPU, with the host's stand-in for one: same bits as on the CPU, DLPack both ways, streams, bad actions, lifetimes.

`cargo xtask wheel --test` builds the stand-in (kernels/host) and names its directory in OPERANT_TEST_STAND_IN. Its memory is the host's,
and with OPERANT_HOST_STREAMS its streams run late, so that a read without waiting reads old bytes.
"""

import ctypes
import gc
import os

import numpy as np
import pytest

import operant
from operant import _core

STAND_IN = os.environ.get("OPERANT_TEST_STAND_IN")
if STAND_IN is None:
    pytest.skip("OPERANT_TEST_STAND_IN names no stand-in for a GPU: cargo xtask wheel --test", allow_module_level=True)

MODES = ["same_step", "next_step", "disabled"]
LEGACY, PER_THREAD = 1, 2


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("owner", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("owner", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


NAMES = {Unversioned: b"dltensor", Versioned: b"dltensor_versioned"}
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}

capi = ctypes.pythonapi
capi.PyCapsule_New.restype = ctypes.py_object
capi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
capi.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
capi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Driver:
    """What another library does with the driver."""

    def __init__(self):
        self.lib = ctypes.CDLL(os.path.join(STAND_IN, "libcuda.so"))

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        assert code == 0, f"{name}: {code}"

    def stream(self):
        handle = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(handle), 1)
        return handle.value

    def alloc(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def write(self, pointer, array, stream):
        size = ctypes.c_size_t(array.nbytes)
        self.call(
            "cuMemcpyHtoDAsync_v2", ctypes.c_uint64(pointer), array.ctypes.data_as(ctypes.c_void_p), size, ctypes.c_void_p(stream)
        )

    def read(self, pointer, like, stream):
        to = np.empty_like(like)
        size = ctypes.c_size_t(to.nbytes)
        self.call(
            "cuMemcpyDtoHAsync_v2", to.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(pointer), size, ctypes.c_void_p(stream)
        )
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        return to

    def wait(self, waits, waited):
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", event, ctypes.c_void_p(waited))
        self.call("cuStreamWaitEvent", ctypes.c_void_p(waits), event, 0)
        self.call("cuEventDestroy_v2", event)


driver = Driver()

# What another library gave, as long as it may be used.
KEPT = []


class Actions:
    """An array of another library on the GPU, written by its own stream."""

    def __init__(self, values, device=(2, 0), kind=Versioned, strides=None, offset=0):
        self.values = np.ascontiguousarray(values)
        self.device, self.kind = device, kind
        self.stream = driver.stream()
        self.pointer = driver.alloc(max(self.values.nbytes, 1) + offset) + offset
        driver.write(self.pointer, self.values, self.stream)
        self.shape = (ctypes.c_int64 * self.values.ndim)(*self.values.shape)
        self.strides = (ctypes.c_int64 * len(strides))(*strides) if strides else None
        self.streams, self.deleted, self.given = [], 0, []
        self.deleter = DELETER(self.delete)
        KEPT.append(self)

    def delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        assert max_version >= (1, 0)
        return self.capsule(stream)

    def capsule(self, stream):
        self.streams.append(stream)
        driver.wait(stream, self.stream)
        dtype = self.values.dtype
        made = self.kind()
        made.tensor = Tensor(
            self.pointer, self.device, self.values.ndim, CODES[dtype.kind], dtype.itemsize * 8, 1, self.shape, self.strides, 0
        )
        made.deleter = self.deleter
        if self.kind is Versioned:
            made.version[0] = 1
        self.given.append(made)
        return capi.PyCapsule_New(ctypes.addressof(made), NAMES[self.kind], None)


class OldActions(Actions):
    """As of a library from before 2024: no versions."""

    def __init__(self, values):
        super().__init__(values, kind=Unversioned)

    def __dlpack__(self, *, stream=None):
        return self.capsule(stream)


def look(capsule, kind=Versioned):
    """The struct of a capsule that was not taken."""
    return kind.from_address(capi.PyCapsule_GetPointer(capsule, NAMES[kind]))


def read(array, stream=None, kind=Versioned):
    """What a consumer sees that reads with its own stream."""
    own = driver.stream() if stream is None else stream
    capsule = array.__dlpack__(stream=own, max_version=(1, 1) if kind is Versioned else None)
    tensor = look(capsule, kind).tensor
    assert tuple(tensor.device) == array.__dlpack_device__() == (2, 0)
    shape = tuple(tensor.shape[: tensor.ndim])
    like = np.empty(shape, array.dtype)
    assert shape == array.shape
    assert tuple(stride * like.itemsize for stride in tensor.strides[: tensor.ndim]) == like.strides
    assert (tensor.code, tensor.bits, tensor.lanes) == (CODES[like.dtype.kind], like.itemsize * 8, 1)
    return driver.read(tensor.data, like, own)


def pair(name="cartpole", n=37, **settings):
    """The same environments on both devices, both reset."""
    ours = operant.make_vec(name, n, device="cuda", **settings)
    cpu = operant.make_vec(name, n, reward_dtype=np.float32, final_obs="dense", **settings)
    return ours, cpu


def sampled(cpu):
    actions = cpu.action_space.sample()
    return actions.astype(np.float32 if actions.dtype.kind == "f" else np.int64)


def compare(given, expected):
    *arrays, info = given
    *host, expected_info = expected
    for ours, theirs in zip(arrays, host, strict=True):
        np.testing.assert_array_equal(read(ours), theirs)
        assert ours.dtype == theirs.dtype
    assert ("player" in info) == ("player" in expected_info)
    if "player" in info:
        np.testing.assert_array_equal(read(info["player"]), expected_info["player"])
    ended = read(info["_episode"])
    assert ended.any() == ("_episode" in expected_info)
    if not ended.any():
        return 0
    np.testing.assert_array_equal(ended, expected_info["_episode"])
    for key in "rl":
        ours, theirs = info["episode"][key], expected_info["episode"][key]
        np.testing.assert_array_equal(read(ours), theirs)
        assert ours.dtype == theirs.dtype
    if "final_obs" in expected_info:
        np.testing.assert_array_equal(read(info["final_obs"])[ended], expected_info["final_obs"][ended])
    assert ("final_obs" in info) == ("final_obs" in expected_info)
    return int(ended.sum())


# The kinds of observations that a GPU writes.
ON_DEVICE = [spec["name"] for spec in _core.specs() if spec["obs"][0] in ("box", "binary")]
CPU_ONLY = [name for name in operant.envs.names() if name not in ON_DEVICE]


@pytest.mark.parametrize("name", CPU_ONLY)
def test_other_kinds_of_observations_are_refused(name):
    with pytest.raises(ValueError, match=f"the observations of {name} are indices, bytes or parts"):
        operant.make_vec(name, 37, device="cuda")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ON_DEVICE)
def test_same_bits_as_on_the_cpu(name, mode):
    ours, cpu = pair(name, seed=5, autoreset_mode=mode)
    assert ours.single_observation_space == cpu.single_observation_space
    assert ours.action_space == cpu.action_space
    cpu.action_space.seed(3)
    np.testing.assert_array_equal(read(ours.reset()[0]), cpu.reset()[0])
    for _ in range(70):
        actions = sampled(cpu)
        compare(ours.step(Actions(actions)), cpu.step(actions))
    mask = np.arange(37) % 3 == 0
    for again in ({"seed": 8}, {}, {"options": {"reset_mask": mask}}):
        np.testing.assert_array_equal(read(ours.reset(**again)[0]), cpu.reset(**again)[0])
        actions = sampled(cpu)
        compare(ours.step(Actions(actions)), cpu.step(actions))


def test_episodes_end_and_old_libraries_are_understood():
    ours, cpu = pair(seed=1)
    ours.reset(), cpu.reset()
    ended = 0
    for step in range(60):
        actions = sampled(cpu)
        made = [Actions(actions), Actions(actions.astype(np.int32)), OldActions(actions)][step % 3]
        ended += compare(ours.step(made), cpu.step(actions))
        # Our stream waits for the producer's, and no other handle is passed.
        assert made.streams == [ours.stream]
    assert ended > 20


def test_every_way_to_read_gives_the_same():
    ours, cpu = pair(seed=1)
    expected = cpu.reset()[0]
    obs, _ = ours.reset()
    for stream in (None, LEGACY, PER_THREAD, ours.stream):
        for kind in (Versioned, Unversioned):
            np.testing.assert_array_equal(read(obs, stream, kind), expected)
    np.testing.assert_array_equal(obs.numpy(), expected)
    np.testing.assert_array_equal(np.from_dlpack(Host(obs)), expected)
    interface = obs.__cuda_array_interface__
    assert interface["version"] == 3 and interface["shape"] == (37, 4) and interface["typestr"] == "<f4"
    assert interface["stream"] == ours.stream and interface["strides"] is None
    pointer, is_read_only = interface["data"]
    assert not is_read_only
    np.testing.assert_array_equal(driver.read(pointer, expected, interface["stream"]), expected)
    own, copy = (obs.__dlpack__(stream=ours.stream, max_version=(1, 0), copy=copy) for copy in (False, True))
    assert look(own).tensor.data == pointer != look(copy).tensor.data
    assert (look(own).flags, look(copy).flags) == (0, 2)
    np.testing.assert_array_equal(driver.read(look(copy).tensor.data, expected, ours.stream), expected)
    assert len(obs) == 37 and obs.device == ours.device == "cuda:0" and "float32" in repr(obs)


class Host:
    """Asks for a copy on the host, as consumers with `device="cpu"` do."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **how):
        return self.array.__dlpack__(max_version=how.get("max_version"), dl_device=(1, 0))


def test_a_consumer_that_asks_for_no_order_gets_none():
    ours, _ = pair(seed=1)
    obs, _ = ours.reset()
    assert look(obs.__dlpack__(stream=-1, max_version=(1, 0))).tensor.data == obs.__cuda_array_interface__["data"][0]
    # 5 and 4097 are no addresses of an object.
    for stream in (0, -2, 5, 4097):
        with pytest.raises(ValueError, match=f"stream: expected .* got {stream}"):
            obs.__dlpack__(stream=stream)
    for elsewhere in ({"dl_device": (2, 1)}, {"dl_device": (1, 0), "copy": False}):
        with pytest.raises(BufferError, match="dl_device: expected"):
            obs.__dlpack__(**elsewhere)


BAD = [
    (lambda: [0] * 37, TypeError, "expected an array on cuda:0 with __dlpack__, got list"),
    (lambda: np.zeros(37, np.int64), ValueError, "expected an array on cuda:0, got one on cpu; nothing was stepped"),
    (lambda: Actions(np.zeros(37, np.int64), (2, 1)), ValueError, "expected an array on cuda:0, got one on cuda:1"),
    (lambda: Actions(np.zeros(37, np.int64), (10, 0)), ValueError, "got one on device 0 of DLPack's type 10"),
    (lambda: Actions(np.zeros(36, np.int64)), ValueError, r"expected shape \[37\], got \[36\]"),
    (lambda: Actions(np.zeros((37, 1), np.int64)), ValueError, r"expected shape \[37\], got \[37, 1\]"),
    (lambda: Actions(np.zeros(37, np.float32)), TypeError, "expected int64 or int32, got float32"),
    (lambda: Actions(np.zeros(37, np.uint8)), TypeError, "expected int64 or int32, got uint8"),
    (lambda: Actions(np.zeros(74, np.int64)[::2], strides=[2]), ValueError, "expected a C-contiguous array, got strides"),
    (lambda: Actions(np.zeros(37, np.int64), offset=4), ValueError, "expected an aligned address"),
]


@pytest.mark.parametrize("make, kind, text", BAD)
def test_bad_actions_step_nothing(make, kind, text):
    ours, cpu = pair(seed=1)
    ours.reset(), cpu.reset()
    bad = make()
    with pytest.raises(kind, match=text):
        ours.step(bad)
    if isinstance(bad, Actions):
        assert bad.deleted == len(bad.given), "what was taken is given back"
    actions = sampled(cpu)
    compare(ours.step(Actions(actions)), cpu.step(actions))


def test_boxes_take_floats():
    ours, cpu = pair("pendulum", seed=1)
    ours.reset(), cpu.reset()
    with pytest.raises(TypeError, match="expected float32, got int64"):
        ours.step(Actions(np.zeros((37, 1), np.int64)))
    with pytest.raises(ValueError, match=r"expected shape \[37, 1\], got \[37\]"):
        ours.step(Actions(np.zeros(37, np.float32)))


def test_values_that_are_no_actions_show_two_calls_later_at_the_latest():
    ours, cpu = pair(seed=1)
    ours.reset(), cpu.reset()
    good = np.zeros(37, np.int64)
    bad = good.copy()
    bad[[5, 9]] = 7
    text = "environment 5, component 0: expected a whole number from 0 to 1, got 7, in step 1 "
    ours.step(Actions(good)), cpu.step(good)
    # It is stepped as 0.
    compare(ours.step(Actions(bad)), cpu.step(good))
    with pytest.raises(ValueError, match=text):
        for _ in range(2):
            ours.step(Actions(good))
    ours.reset(seed=3), cpu.reset(seed=3)
    compare(ours.step(Actions(good)), cpu.step(good))
    ours.step(Actions(bad))
    with pytest.raises(ValueError, match="environment 5"):
        ours.synchronize()
    ours.synchronize()


def test_actions_are_kept_until_the_gpu_has_read_them():
    ours, cpu = pair(seed=1)
    ours.reset(), cpu.reset()
    made = []
    for _ in range(6):
        actions = sampled(cpu)
        made.append(Actions(actions))
        ours.step(made[-1]), cpu.step(actions)
        assert made[-1].deleted == 0
    assert [given.deleted for given in made] == [1, 1, 1, 1, 0, 0]
    ours.close()
    gc.collect()
    assert [given.deleted for given in made] == [1] * 6


def test_arrays_outlive_their_environments():
    holder, _ = pair(n=1)
    before = driver.free()
    ours, cpu = pair(n=5000, seed=1)
    expected = cpu.reset()[0]
    obs, _ = ours.reset()
    stream = driver.stream()
    capsule = obs.__dlpack__(stream=stream, max_version=(1, 0))
    pointer = look(capsule).tensor.data
    ours.close()
    with pytest.raises(Exception, match="closed"):
        ours.reset()
    np.testing.assert_array_equal(obs.numpy(), expected)
    del ours, obs
    gc.collect()
    # The memory of the observations alone is left.
    assert before - expected.nbytes >= driver.free() > before - 2 * expected.nbytes
    np.testing.assert_array_equal(driver.read(pointer, expected, stream), expected)
    # The capsule was not taken, so it frees the memory itself.
    del capsule
    gc.collect()
    assert driver.free() == before
    holder.close()


@pytest.mark.parametrize("kind", [Versioned, Unversioned])
def test_a_capsule_that_was_taken_frees_nothing_and_its_consumer_does(kind):
    holder, _ = pair(n=1)
    before = driver.free()
    ours, _ = pair(n=5000, seed=1)
    capsule = ours.reset()[0].__dlpack__(stream=-1, max_version=(1, 0) if kind is Versioned else None)
    managed = look(capsule, kind)
    used = b"used_" + NAMES[kind]
    assert capi.PyCapsule_SetName(capsule, used) == 0
    ours.close()
    del ours, capsule
    gc.collect()
    assert driver.free() < before
    # Called without the GIL, as by a library's own thread: ctypes releases it.
    DELETER(ctypes.cast(managed.deleter, ctypes.c_void_p).value)(ctypes.addressof(managed))
    assert driver.free() == before
    holder.close()


def test_a_capsule_is_taken_once():
    ours, cpu = pair(seed=1)
    ours.reset()
    actions = Actions(sampled(cpu))
    capsule = actions.capsule(ours.stream)
    again = type("Again", (), {"__dlpack_device__": lambda _: (2, 0), "__dlpack__": lambda _, **how: capsule})()
    ours.step(again)
    with pytest.raises(TypeError, match="expected a capsule of DLPack that was not taken before"):
        ours.step(again)
    ours.close()
    assert actions.deleted == 1


def test_what_cannot_be_made_is_refused():
    for device, text in [
        ("cuda:99", "cannot be used: .*99"),
        ("gpu", "device: expected cpu, cuda or cuda:K, got gpu"),
    ]:
        with pytest.raises(ValueError, match=text):
            operant.make_vec("cartpole", 4, device=device)
    with pytest.raises(MemoryError, match="memory"):
        operant.make_vec("cartpole", 100_000, device="cuda:3")
    with pytest.raises(ValueError, match="autoreset_mode: expected one of"):
        operant.make_vec("cartpole", 4, device="cuda", autoreset_mode="never")
    with pytest.raises(ValueError, match="threads"):
        operant.make_vec("cartpole", 4, device="cuda", threads=2)
    with pytest.raises(Exception, match="expected reset before the first step"):
        operant.make_vec("cartpole", 4, device="cuda").step(Actions(np.zeros(4, np.int64)))
    assert operant.DeviceArray is _core.DeviceArray
