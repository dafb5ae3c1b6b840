"""Shared code of the recipes of MuJoCo's tasks: a driver of Gymnasium, the states that single steps start from, and long
episodes. `bodies.py [DIRECTORY]` prints how many cases do what, as a Markdown table, and what pushes in none."""

import gzip
import json
import math
import pathlib
import sys

import gymnasium
import mujoco
import numpy as np
from gymnasium.wrappers import TimeLimit
from reference import HERE, Gym, f32

# A step differs by rounding only; several steps multiply that.
STEP_NOISE = 1e-12
# Noise on a state that stands for single precision.
NOISE_32 = 3e-7


def tolerances(f32, **more):
    return {"tolerance": {"step": 1e-9, "end": 1e-8, "reward": 1e-9, "f32": f32, **more}, "angles": []}


class Body(Gym):
    """A task of MuJoCo. The state is `qpos`, then `qvel`, and for Ant the position that its next forward reward counts from:
    x of the main body, which the last step left at the last stage of its integrator."""

    package = f"mujoco {mujoco.__version__}, gymnasium {gymnasium.__version__}"

    def __init__(self, id, env=None, **options):
        self.spec, self.options, self.name = gymnasium.spec(id), options, env
        self.inner = gymnasium.make(id, disable_env_checker=True, **options).unwrapped
        self.env = TimeLimit(self.inner, self.spec.max_episode_steps)
        self.model, self.data = self.inner.model, self.inner.data
        self.scratch = mujoco.MjData(self.model)
        self.bound = float(self.model.actuator_ctrlrange[0, 1])
        self.lagged = id.startswith("Ant")
        # The minimum itself: by default the solver may stop up to 2e-6 away from it.
        self.exact = {"tolerance": 0.0, "ls_tolerance": 1e-12, "iterations": 100, "ls_iterations": 100}
        self.default = {name: getattr(self.model.opt, name) for name in self.exact}
        self.solve(self.exact)

    def facts(self):
        """Id, options, time limit and spaces; the name of operant's environment where several references are of one."""
        options = {}
        for name, value in self.options.items():
            if name.endswith("_range"):
                options |= zip((name[:-5] + "min", name[:-5] + "max"), map(float, value))
            else:
                options[name] = float(value)
        box = self.inner.action_space
        return {
            **({"env": self.name} if self.name else {}),
            "id": self.spec.id,
            "options": options,
            "time_limit": self.spec.max_episode_steps,
            "obs": list(self.inner.observation_space.shape),
            "actions": {"box": [float(box.low[0]), float(box.high[0])]},
        }

    def solve(self, how):
        for name, value in how.items():
            setattr(self.model.opt, name, value)

    def set(self, state):
        nq, nv = self.model.nq, self.model.nv
        self.data.qpos[:], self.data.qvel[:] = state[:nq], state[nq : nq + nv]
        self.data.time, self.data.qacc_warmstart[:] = 0.0, 0.0
        if self.lagged:
            self.data.body(self.inner._main_body).xpos[0] = state[-1]

    def state(self):
        lag = [self.data.body(self.inner._main_body).xpos[0]] if self.lagged else []
        return [float(x) for x in (*self.data.qpos, *self.data.qvel, *lag)]

    def step(self, action):
        # In double precision throughout: a control cost is summed in the type of the action.
        obs, reward, terminated, truncated, _ = self.env.step(np.array(action, dtype=np.float64))
        return [float(x) for x in obs], float(reward), bool(terminated), bool(truncated)

    def look(self, state):
        """What constrains a state: contacts (with the floor, with itself, with itself where axes cross) and limits."""
        nq, nv = self.model.nq, self.model.nv
        return constraints(self.model, self.scratch, state[:nq], state[nq : nq + nv])


def constraints(model, data, qpos, qvel):
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(model, data)
    floor = [contact for contact in data.contact if 0 in contact.geom]
    own = [contact for contact in data.contact if 0 not in contact.geom]
    return {
        "floor": len(floor),
        "itself": len(own),
        "crossing": sum(abs(contact.frame[1]) > 0.5 for contact in own),
        "limits": int(np.sum(data.efc_type == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT)),
    }


def collides(model, first, second):
    """Whether two geoms may touch each other: their bodies are neither one nor parent and child, and no other rule keeps them apart."""
    a, b = int(model.geom_bodyid[first]), int(model.geom_bodyid[second])
    meant = model.geom_contype[first] & model.geom_conaffinity[second] or model.geom_contype[second] & model.geom_conaffinity[first]
    welded = [int(model.body_weldid[body]) for body in (a, b)]
    related = [int(model.body_weldid[model.body_parentid[body]]) for body in welded]
    return bool(meant) and welded[0] != welded[1] and (first == 0 or (welded[0] != related[1] and welded[1] != related[0]))


def pushers(model):
    """All that may push: sides of limits, ends of capsules and whole spheres at the floor, and pairs of geoms."""
    limited = [joint for joint in np.flatnonzero(model.jnt_limited) if not model.joint(joint).name.startswith("target")]
    limits = {("limit", int(joint), lower) for joint in limited for lower in (True, False)}
    sphere = lambda geom: model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE
    at_floor = [geom for geom in range(1, model.ngeom) if model.geom_type[0] == mujoco.mjtGeom.mjGEOM_PLANE and collides(model, 0, geom)]
    floor = {("floor", geom, end) for geom in at_floor for end in ([None] if sphere(geom) else [True, False])}
    pairs = {("pair", a, b) for b in range(1, model.ngeom) for a in range(1, b) if collides(model, a, b)}
    return limits | floor | pairs


def label(model, pusher):
    """A pusher in words; ends of a capsule as `fromto` in the model's XML has them."""
    kind, a, b = pusher
    if kind == "limit":
        return f"the {'lower' if b else 'upper'} limit of `{model.joint(a).name}`"
    if kind == "pair":
        return f"`{model.geom(a).name}` against `{model.geom(b).name}`"
    return ("" if b is None else f"the {'first' if b else 'second'} end of ") + f"`{model.geom(a).name}`"


def pushing(model, data, qpos, qvel):
    """Which of the `pushers` push: every constant of a model should be among the cases."""
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(model, data)
    found, pushes = set(), data.efc_force > 1e-3
    for row in np.flatnonzero((data.efc_type == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT) & pushes):
        joint = int(data.efc_id[row])
        found.add(("limit", joint, bool(data.efc_J.reshape(-1, model.nv)[row, model.jnt_dofadr[joint]] > 0)))
    for contact in data.contact:
        edges = 1 if contact.dim == 1 else 2 * (contact.dim - 1)
        if contact.efc_address < 0 or not np.any(pushes[contact.efc_address : contact.efc_address + edges]):
            continue
        first, geom = sorted(map(int, contact.geom))
        along = np.dot(contact.pos - data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)[:, 2])
        end = None if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE else bool(along > 0)
        found.add(("floor", geom, end) if first == 0 else ("pair", first, geom))
    return found


def cover(c, rng, special=None, patience=150):
    """Adds single steps from states in which something pushes that pushes in no case yet, until many episodes show none. A fifth of the
    episodes begin as `special` says."""
    env, model = c.env, c.env.model
    of = lambda state: pushing(model, env.scratch, state[: model.nq], state[model.nq : model.nq + model.nv])
    allowed = c.recipe.REFERENCE["tolerance"]
    known, wanted = set().union(*(of(case["state"]) for case in c.cases)), pushers(model)
    index = quiet = 0
    while quiet < patience and known != wanted:
        quiet, index = quiet + 1, index + 1
        for state, actions in visited(env, rng, index, special):
            state = f32(state)
            if of(state) - known and holds_in_32(env, state, f32(actions[0]), allowed) and c.single(state, f32(actions[0]), on_edge=True):
                known |= of(state)
                quiet = 0


def player(env, rng, kind):
    """Actions by the number of the step."""
    nu, bound = env.model.nu, env.bound
    hold = int(rng.integers(1, 12))
    table = rng.uniform(-1, 1, (300, nu))
    phase, pace = rng.uniform(0, 2 * math.pi, nu), rng.uniform(0.05, 0.8)
    return {
        "random": lambda k: bound * table[k],
        "held": lambda k: bound * table[k // 10],
        "bang-bang": lambda k: bound * np.sign(table[k // hold]),
        "sinusoidal": lambda k: bound * np.sin(phase + pace * k),
        "zero": lambda k: np.zeros(nu),
        "beyond": lambda k: 1.7 * bound * table[k // hold],
    }[kind]


def pose(env, rng):
    """Random joints, on both sides of their limits, and a random orientation, near the floor if there is one."""
    model, qpos, root = env.model, env.data.qpos.copy(), None
    for joint in range(model.njnt):
        at, (low, high) = model.jnt_qposadr[joint], model.jnt_range[joint]
        over = 0.06 * (high - low)
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            turn = rng.standard_normal(4)
            qpos[at : at + 2], qpos[at + 3 : at + 7], root = rng.uniform(-3, 3, 2), turn / np.linalg.norm(turn), at + 2
        elif model.joint(joint).name.startswith("target"):
            continue
        elif model.jnt_limited[joint]:
            qpos[at] = rng.uniform(low - over, high + over)
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
            qpos[at] = rng.uniform(-math.pi, math.pi)
        elif model.jnt_axis[joint][2] == 1:
            root = at
        else:
            qpos[at] = rng.uniform(-3, 3)
    if root is not None and model.geom_type[0] == mujoco.mjtGeom.mjGEOM_PLANE:
        env.scratch.qpos[:] = qpos
        mujoco.mj_kinematics(model, env.scratch)
        up = np.abs(env.scratch.geom_xmat[1:, 8]) * model.geom_size[1:, 1] * (model.geom_type[1:] == mujoco.mjtGeom.mjGEOM_CAPSULE)
        qpos[root] += rng.uniform(-0.03, 0.15) - np.min(env.scratch.geom_xpos[1:, 2] - up - model.geom_size[1:, 0])
    return qpos


def free_dofs(env):
    """1 for each degree of freedom but those of a target, which stays where it is."""
    return np.array([not env.model.joint(int(j)).name.startswith("target") for j in env.model.dof_jntid])


def speeds(env, rng):
    """Random velocities, up to fast ones."""
    # In a dense fluid, drag on a faster body is too stiff for the time step.
    fast = 2.0 if env.model.opt.density else 6.0
    return free_dofs(env) * rng.normal(0, rng.choice([0.3, 2.0, fast]), env.model.nv)


def folded(env, rng):
    """A pose in which the body touches itself."""
    while True:
        qpos = pose(env, rng)
        if constraints(env.model, env.scratch, qpos, np.zeros(env.model.nv))["itself"]:
            return qpos, speeds(env, rng)


def near_upright(env, rng):
    """A cart near an end of its rail, with its poles nearly upright."""
    qpos = [rng.choice([-1, 1]) * rng.uniform(0.9, 1.03), *rng.uniform(-0.2, 0.2, env.model.nq - 1)]
    return np.array(qpos), speeds(env, rng)


def forced(env, rng):
    """A pose partly below the floor, falling fast, with joints beyond their limits that move on: ends of capsules push that others keep off
    the floor otherwise, and limits where a spring pulls back."""
    model, qpos, qvel = env.model, pose(env, rng), speeds(env, rng)
    for joint in np.flatnonzero(model.jnt_limited):
        side, (low, high) = rng.choice([-1, 1]), model.jnt_range[joint]
        limit = high if side > 0 else low
        qpos[model.jnt_qposadr[joint]] = limit + side * rng.uniform(0, 0.06) * (high - low)
        qvel[model.jnt_dofadr[joint]] = side * rng.uniform(0, 15)
    height = 2 if model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE else 1
    qpos[height] -= rng.uniform(0, 0.7)
    qvel[height] -= rng.uniform(0, 20)
    return qpos, qvel


def start(env, rng, kind, special):
    """A state to start an episode from, and how long it may be."""
    env.reset_state(int(rng.integers(1 << 30)))
    qpos, qvel = env.data.qpos.copy(), env.data.qvel.copy()
    if kind == "thrown":
        qvel += free_dofs(env) * rng.normal(0, rng.choice([1.0, 4.0]), env.model.nv)
    if kind == "wild":
        qpos, qvel = pose(env, rng), speeds(env, rng)
    if kind == "special":
        qpos, qvel = special(env, rng)
    lag = [qpos[0]] if env.lagged else []
    return [*qpos, *qvel, *lag], {"ordinary": 200, "fallen": 200, "thrown": 100, "wild": 30, "special": 6}[kind]


def visited(env, rng, index, special):
    """The states of an episode, each with the next three actions."""
    kinds = ["ordinary", "thrown", "wild", "fallen", "special" if special else "wild"]
    kind = kinds[index % len(kinds)]
    play = player(env, rng, ["random", "held", "bang-bang", "sinusoidal", "zero", "beyond"][index % 6])
    state, limit = start(env, rng, kind, special)
    env.start(state)
    env.solve(env.default)  # ten times as fast
    rows = []
    for k in range(limit):
        rows.append((env.state(), [play(k + i) for i in range(3)]))
        _, _, terminated, _, _ = env.inner.step(rows[-1][1][0])
        if terminated and kind == "ordinary":
            break
    env.solve(env.exact)
    return rows


def holds_in_32(env, state, action, allowed):
    """Whether the error of single precision changes a step by a small part of what is allowed there."""
    def step(state):
        env.start(state)
        obs, _, terminated, _ = env.step(action)
        return np.array(obs), np.array(env.state()), terminated

    obs, end, terminated = step(state)
    rng = np.random.default_rng(0)
    for _ in range(8):
        others, other, flag = step([x + NOISE_32 * max(1, abs(x)) * rng.uniform(-1, 1) for x in state])
        moved = np.abs(other - end).max() / allowed["f32"], np.abs(others - obs).max() / allowed.get("f32_obs", allowed["f32"])
        if flag != terminated or max(moved) > 1 / 4:
            return False
    return True


def collect(c, rng, states, special=None, constrained=0.0, per_episode=2):
    """Adds that many cases: mostly one step, else three. A step that single precision may decide otherwise is one of two.
    At least the share `constrained` of them starts on a limit."""
    env, index, ended, tied = c.env, 0, 0, 0
    allowed = c.recipe.REFERENCE["tolerance"]
    while len(c.cases) < states:
        rows = visited(env, rng, index, special)
        index += 1
        if tied < constrained * len(c.cases):
            rows = [row for row in rows if env.look(row[0])["limits"]]
        for at in rng.choice(len(rows), min(per_episode, len(rows)), replace=False):
            if len(c.cases) == states:
                break
            state, actions = f32(rows[at][0]), [f32(action) for action in rows[at][1]]
            env.start(state)
            terminated = env.step(actions[0])[2]
            if terminated and 2 * ended > len(c.cases):
                continue  # else nearly all would lie on the floor
            if len(c.cases) % 8 == 7:
                added = c.episode(state, actions)
            elif holds_in_32(env, state, actions[0], allowed):
                added = c.single(state, actions[0], on_edge=True)
            else:
                added = c.episode(state, actions[:2])
            ended += bool(added) and terminated
            tied += bool(added and constrained and env.look(state)["limits"])


def play_long(c, rng, steps, count, ends=(False, False), hold=5, least=330):
    """Adds long episodes of held actions in coarse numbers, until there are `count` and the reference has enough steps."""
    steps_of = lambda: sum(len(e["reward"]) for e in c.expected) + sum(e["steps"] for e in c.long)
    tries = 0
    while len(c.long) < count or steps_of() < least:
        state = c.env.reset_state(int(rng.integers(1 << 30)))
        c.long_episode(state, careful(c.env, rng, state, steps, hold), ends)
        tries += 1
        assert tries < 200, f"{c.name}: no long episode"


def careful(env, rng, state, steps, hold):
    """Actions, each held for some steps, after which the body does not fall at once."""
    env.start(state)
    env.solve(env.default)
    actions, here = [], env.state()
    while len(actions) < steps:
        best = (-1, None)
        for _ in range(24):
            action = [int(a) * env.bound / 8 for a in rng.integers(-8, 9, env.model.nu)]
            env.set(here)
            upright = 0
            for k in range(hold + 10):
                if env.inner.step(np.array(action) * (k < hold))[2]:
                    break
                upright += 1
            if upright > best[0]:
                best = (upright, action)
            if upright == hold + 10:
                break
        env.set(here)
        for _ in range(hold):
            env.inner.step(np.array(best[1]))
            actions.append(best[1])
        here = env.state()
    env.solve(env.exact)
    return actions[:steps]


def table(directory):
    """The cases that were written, counted from the files, and what exerts a force in no case of a task."""
    print("| reference | cases | steps, with long episodes | touching the floor | touching itself | on a limit | terminated | bytes |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    missing = []
    for path in sorted(directory.glob("*.reference.json")):
        facts, name = json.loads(path.read_text()), path.name.removesuffix(".reference.json")
        if not facts["package"].startswith("mujoco"):
            continue
        files = {kind: directory / f"{name}.{kind}.jsonl.gz" for kind in ("cases", "expected", "long")}
        cases, expected, long = (list(map(json.loads, gzip.open(file, "rt"))) for file in files.values())
        model = gymnasium.make(facts["id"]).unwrapped.model
        data = mujoco.MjData(model)
        states = [(c["state"][: model.nq], c["state"][model.nq : model.nq + model.nv]) for c in cases]
        seen = [constraints(model, data, *state) for state in states]
        if "env" not in facts:
            never = pushers(model).difference(*(pushing(model, data, *state) for state in states))
            missing += [f"`{name}`: {label(model, pusher)}" for pusher in sorted(never, key=str)]
        steps = sum(len(e["reward"]) for e in expected) + sum(e["steps"] for e in long)
        crossing = sum(s["crossing"] > 0 for s in seen)
        itself = f"{sum(s['itself'] > 0 for s in seen)}" + (f", {crossing} crossing" if crossing else "")
        print(
            f"| `{name}` | {len(cases)} | {steps} | {sum(s['floor'] > 0 for s in seen)} | {itself} | "
            f"{sum(s['limits'] > 0 for s in seen)} | {sum(e['terminated'][-1] for e in expected)} | "
            f"{sum(file.stat().st_size for file in files.values()):,} |"
        )
    print("\nPush in no case:", "; ".join(missing) or "none")


if __name__ == "__main__":
    table(pathlib.Path(sys.argv[1]) if sys.argv[1:] else HERE)
