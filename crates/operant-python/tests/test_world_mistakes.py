"""Mistakes in worlds: each is an error that names the line of the rule and what to write instead."""

import functools
import inspect
import logging
import math
import operator
import random
import re
import time
import types
import uuid
from re import fullmatch

import gymnasium
import numpy as np
import pytest

import operant
from operant import math as om
from operant import shapes

spaces = gymnasium.spaces
REAL = spaces.Box(-np.inf, np.inf, (1,))


def kept():
    """Its attributes are values of another call, in a place where no recording looks for changes."""


class Fields:
    """A state of every kind, and rules without mistakes."""

    x: operant.Float
    n: operant.Uint
    i: operant.Int
    b: operant.Bool
    few: operant.Uint[4]
    many: operant.Uint[40]
    grid: operant.Float[2, 3]

    observation_space = REAL
    action_space = spaces.Discrete(3)
    max_episode_steps = 10

    def first(self, **changes):
        return self.State(**{"x": 0.5, "n": 3, "i": -1, "b": True, "few": [0] * 4, "many": [0] * 40, "grid": np.zeros((2, 3)), **changes})

    def reset(self, draws):
        kept.value, kept.draws, kept.state = draws.uniform(), draws, self.first()
        return self.first()

    def step(self, s, action, draws):
        return s, 0.0, False

    def observe(self, s):
        return [s.x]


def made(**rules):
    """A world with some rules or attributes in place of those of `Fields`."""
    return operant.world(type("Wrong", (Fields,), rules))


def step_of(compute):
    """A step that computes something first."""

    def step(self, s, action, draws):
        compute(s, action, draws)
        return s, 0.0, False

    return step


def line_of(rule, offset=0):
    """The place of a rule in this file, as errors begin."""
    return re.escape(f"{__file__}:{rule.__code__.co_firstlineno + offset}: ")


def loop_of(s, own):
    om.repeat(2, lambda i, x: x + own.uniform(), s.x)


def two_draws(s, own):
    om.when(s.b, lambda x: own.uniform() + own.uniform(), s.x)


UNKNOWN = "needs a concrete value, but an? {} is symbolic while the world is recorded: .*; use .*{}"
LEAKED = r"inside a rule of operant\.math\.when or repeat.*return it from the rule"
KEPT = "recorded by another call; keep numbers in the state's fields, not on self"
OUTSIDE = r"draws\.reserve\(count\).*draws\.turns\(turns, count\)\[index\]; call reserve or turns before when or repeat"


# fmt: off
@pytest.mark.parametrize(
    ("compute", "says"),
    [
        # What Python would need to know.
        (lambda s, a, d: 1 if s.x > 0 else 2, UNKNOWN.format("Bool", r"operant\.math\.where")),
        (lambda s, a, d: s.x > 0 and s.b, "`and`.*" + UNKNOWN.format("Bool", "& | ~").replace("|", r"\|")),
        (lambda s, a, d: not s.b, "`not`.*use operant.math.where"),
        (lambda s, a, d: 0 < s.x < 1, "`if`.*where"),
        (lambda s, a, d: max(s.x, 1.0), "where"),
        (lambda s, a, d: s.n in [1, 2], "where"),
        (lambda s, a, d: range(s.n), UNKNOWN.format("Uint", r"operant\.math\.repeat")),
        (lambda s, a, d: [1, 2, 3][s.n], UNKNOWN.format("Uint", r"operant\.math\.table\(list\)\[index\]")),
        (lambda s, a, d: {0: 1}[s.n], UNKNOWN.format("Uint", r"operant\.math\.table")),
        (lambda s, a, d: math.sin(s.x), UNKNOWN.format("Float", r"operant\.math \(sin, exp, sqrt")),
        (lambda s, a, d: math.floor(s.x), r"operant\.math\.floor"),
        (lambda s, a, d: float(s.x), UNKNOWN.format("Float", r"operant\.math")),
        (lambda s, a, d: int(s.x), UNKNOWN.format("Float", r"operant\.math\.to_int or to_uint")),
        (lambda s, a, d: round(s.x), r"operant\.math\.round"),
        (lambda s, a, d: np.sin(s.x), r"NumPy function such as sin cannot be recorded; use the function of operant\.math"),
        (lambda s, a, d: np.maximum(s.x, 1.0), r"NumPy function such as maximum cannot be recorded; use the function of operant\.math"),
        (lambda s, a, d: np.add.reduce(s.x), r"NumPy function such as add cannot be recorded; use the function of operant\.math"),
        (lambda s, a, d: np.array([s.x]), r"a NumPy function needs.*use operant\.math"),
        (lambda s, a, d: np.clip(s.x, 0, 1), r"a NumPy function needs.*use operant\.math"),
        (lambda s, a, d: np.where(s.b, 1, 2), r"a NumPy function needs.*use operant\.math"),
        (lambda s, a, d: np.add.reduce(s.few), "NumPy function such as add.*elements of an array"),
        (lambda s, a, d: np.ones(3) * s.x, r"NumPy array cannot be combined with a recorded value.*operant\.math\.table"),
        (lambda s, a, d: np.ones(3) * s.few, "4 values are expected, got 3"),
        (lambda s, a, d: s.x * np.ones(3), "a Float is expected, got array"),
        # Names that there are not.
        (lambda s, a, d: d.uniform(size=3), r"draws\.uniform draws one number; write \[draws\.uniform\(\.\.\.\) for _ in range\(n\)\]"),
        (lambda s, a, d: d.gauss(), r"`draws` has no gauss; use draws\.normal\(mean, std\)"),
        (lambda s, a, d: d.integres(3), r'`draws` has no integres \(did you mean "integer"\?\)'),
        (lambda s, a, d: d.zipf(3), "`draws` has no zipf; it has uniform, integer, normal, bits, reserve, turns"),
        (lambda s, a, d: om.max(s.x, 1.0), r"operant\.math has no max; use operant\.math\.maximum\(a, b\)"),
        (lambda s, a, d: om.minimun(s.x, 1.0), 'operant.math has no minimun .did you mean "minimum"'),
        (lambda s, a, d: om.erf(s.x), "operant.math has no erf; it has acos, all, any, array"),
        (lambda s, a, d: s.x.clip(0, 1), r"a Float has no clip; use operant\.math\.clip"),
        (lambda s, a, d: s.x.mean(), r"a Float has no mean; use operators and operant\.math"),
        (lambda s, a, d: s.few.append(1), r"an array has no append; use a\[k\] = value"),
        # One number is no list.
        (lambda s, a, d: a[0], "an index: an Int is one number in each environment"),
        (lambda s, a, d: list(s.x), "iterating: a Float is one number.*is an array"),
        (lambda s, a, d: len(s.x), r"len\(\): a Float is one number"),
        # Kinds.
        (lambda s, a, d: s.x + s.n, r"a Float and a Uint do not mix; convert one of them with operant\.math\.to_float"),
        (lambda s, a, d: s.i < s.n, r"an Int and a Uint do not mix.*to_int or to_uint"),
        (lambda s, a, d: s.b * s.x, r"a Bool and a Float do not mix; convert the Bool with .*, or compare the other value, as in x != 0"),
        (lambda s, a, d: s.n + 0.5, r"0\.5 is a real number where a Uint is expected; convert the whole number first, as in operant\.math\.to_float\(a\) \* 0\.5, or make the field an operant\.Float"),
        (lambda s, a, d: a * 2.0, r"2\.0 is a real number where an Int is expected; .*to_float\(a\) \* 2\.0"),
        (lambda s, a, d: s.n - -1, r"-1 does not fit a Uint, which goes from 0 to 4294967295"),
        (lambda s, a, d: s.i * 2**31, "2147483648 does not fit an Int"),
        (lambda s, a, d: s.x + 10**400, "more than 300 digits does not fit a Float"),
        (lambda s, a, d: s.x + True, "a Float is expected, got True"),
        (lambda s, a, d: s.b & 1, "a Bool is expected, got 1; compare it"),
        (lambda s, a, d: s.x + "1", "a Float is expected, got '1'"),
        (lambda s, a, d: operator.eq(s.x, None), "a Float is expected, got None"),
        (lambda s, a, d: om.where(s.n, 1, 2), "a Bool is expected, got a Uint; compare it, as in x != 0"),
        (lambda s, a, d: om.where(s.b, True, 1), "a Bool is expected, got 1"),
        (lambda s, a, d: om.sqrt(s.n), r"a Float is expected, got a Uint; convert it with operant\.math\.to_float"),
        (lambda s, a, d: om.count_ones(s.i), r"operant\.math\.to_uint"),
        # Numbers below 0, which no Uint is.
        (lambda s, a, d: om.to_float(s.n - 1), r"to_float of a Uint that may be -1: below 0 it wraps around.*to_float\(a\) - .*to_int first"),
        (lambda s, a, d: om.to_float(4 - s.n), "to_float of a Uint that may be -4294967291"),
        (lambda s, a, d: om.to_float(s.n - a), "to_float of a Uint that may be -2"),
        (lambda s, a, d: om.to_float(om.where(s.b, s.n - 1, 3)), "to_float of a Uint that may be -1"),
        (lambda s, a, d: om.to_float(2 * (d.integer(5) - 2) + 1), "to_float of a Uint that may be -3"),
        (lambda s, a, d: (s.n - 1) % 5, r"% of a Uint that may be -1.*\(x \+ size - 1\) % size"),
        (lambda s, a, d: (s.n - 1) // 2, "// of a Uint that may be -1"),
        (lambda s, a, d: om.clip(s.n - 1, 0, 7), "clip of a Uint that may be -1: below 0 it wraps around"),
        (lambda s, a, d: om.maximum(s.n - 1, 0), "maximum of a Uint that may be -1"),
        (lambda s, a, d: om.minimum(s.n + (om.where(s.b, 1, 0) - om.where(s.b, 0, 1)), 7), "minimum of a Uint that may be -1"),
        (lambda s, a, d: s.n < 0, "a Uint is never below 0, so `< 0` is the same for all numbers.*operant.Int"),
        (lambda s, a, d: s.n - 1 >= 0, "a Uint is never below 0, so `>= 0` is the same"),
        (lambda s, a, d: 0 > s.n - 1, "a Uint is never below 0, so `< 0` is the same"),
        (lambda s, a, d: a == 3, "the action is from 0 to 2: `== 3` is the same for all actions"),
        (lambda s, a, d: a != -1, "the action is from 0 to 2: `!= -1` is the same"),
        (lambda s, a, d: a < 0, "the action is from 0 to 2: `< 0` is the same"),
        (lambda s, a, d: 2 < a, "the action is from 0 to 2: `> 2` is the same"),
        (lambda s, a, d: a >= 3, "the action is from 0 to 2: `>= 3` is the same"),
        (lambda s, a, d: s.i // a, r"// is not defined for an Int"),
        # Operators.
        (lambda s, a, d: s.n / s.n, r"/ is not defined for a Uint; use // or >> with a constant, or operant\.math\.to_float"),
        (lambda s, a, d: s.n // s.n, r"// of a Uint takes a constant; otherwise convert both sides.*to_float"),
        (lambda s, a, d: 7 % s.n, "% of a Uint takes a constant"),
        (lambda s, a, d: s.n // 0, "// of a Uint takes a constant from 1 to 4294967295, got 0"),
        (lambda s, a, d: s.i // 2, r"// is not defined for an Int; convert it with operant\.math\.to_float"),
        (lambda s, a, d: s.n << 40, "<< 40: numbers have 32 bits, so a shift is at most 31"),
        (lambda s, a, d: s.i >> s.n, r">> of an Int takes a constant; if x is not negative, use operant\.math\.to_uint"),
        (lambda s, a, d: s.x << 1, "<< is not defined for a Float"),
        (lambda s, a, d: s.x & 1, "& is not defined for a Float"),
        (lambda s, a, d: ~s.x, "~ is not defined for a Float"),
        (lambda s, a, d: -s.n, r"- is not defined for a Uint; convert it with operant\.math\.to_int"),
        (lambda s, a, d: s.b + s.b, r"\+ is not defined for a Bool; choose numbers with operant\.math\.where"),
        (lambda s, a, d: abs(s.n), "abs is not defined for a Uint"),
        (lambda s, a, d: 2**s.n, r"\*\* takes a constant power"),
        # Fields.
        (lambda s, a, d: setattr(s, "speed", 1.0), r"the state has no field speed; it has x, n, .*Annotate it.*`speed: operant\.Float`"),
        (lambda s, a, d: s.speed, "the state has no field speed; it has x, n, i, b, few, many, grid"),
        (lambda s, a, d: s.replace(speed=1.0), "the state has no field speed"),
        (lambda s, a, d: setattr(s, "n", 0.5), "0.5 is a real number where a Uint is expected"),
        (lambda s, a, d: setattr(s, "n", s.x), r"a Uint is expected, got a Float; convert it with operant\.math\.to_uint"),
        (lambda s, a, d: setattr(s, "n", -1), "-1 does not fit a Uint"),
        (lambda s, a, d: setattr(s, "b", 1), "a Bool is expected, got 1; compare it"),
        (lambda s, a, d: setattr(s, "few", [1, 2, 3]), "4 values are expected, got 3"),
        (lambda s, a, d: setattr(s, "few", 3), "4 values are expected, got 3"),
        (lambda s, a, d: setattr(s, "few", s.many), r"an array of 4 is expected \(a Uint each\), got one of 40"),
        (lambda s, a, d: setattr(s, "n", s.few), "a Uint is expected, got an array; index it"),
        # Arrays.
        (lambda s, a, d: s.few[4], "index 4 is outside an array of 4"),
        (lambda s, a, d: s.many[-41], "index -41 is outside an array of 40"),
        (lambda s, a, d: s.few.put(4, 1), "index 4 is outside an array of 4"),
        (lambda s, a, d: s.few[s.x], r"a Uint is expected, got a Float; convert it with operant\.math\.to_uint"),
        # Tables.
        (lambda s, a, d: om.table([]), "a table has numbers, at least one"),
        (lambda s, a, d: om.table(["a"]), "a table has numbers"),
        (lambda s, a, d: om.table([1, -1]), "from 0 to 4294967295, got -1"),
        (lambda s, a, d: om.table([1, 2])[s.x], r"a Uint is expected, got a Float"),
        (lambda s, a, d: om.table([s.x, 2.0]), "a NumPy function needs"),
        # Cold paths and loops.
        (lambda s, a, d: om.when(s.b, lambda x, n: x, s.x, s.n), "was given 2 values and returned 1; it returns as many"),
        (lambda s, a, d: om.when(s.b, lambda x: (x, x), s.x), "was given 1 values and returned 2"),
        (lambda s, a, d: om.when(s.b, lambda x: s.n, s.x), "a Float is expected, got a Uint"),
        (lambda s, a, d: om.when(True, lambda x: s.n, s.x), "a Float is expected, got a Uint"),
        (lambda s, a, d: om.when(s.b, lambda: None), "give the values that the rule changes"),
        (lambda s, a, d: om.when(s.x, lambda x: x, s.x), "a Bool is expected, got a Float"),
        (lambda s, a, d: om.repeat(s.n, lambda i, x: x, s.x), "known while the world is recorded, got <Uint>; use repeat_while"),
        (lambda s, a, d: om.repeat(2**32, lambda i, x: x, s.x), "repeat takes a number of turns"),
        (lambda s, a, d: om.repeat(2, lambda i, x: i, s.x), "a Float is expected, got a Uint"),
        (lambda s, a, d: om.repeat(2, lambda i, x: 1 if i == 0 else x, s.x), "where"),
        # Draws.
        (lambda s, a, d: om.when(s.b, lambda x: d.uniform(), s.x), OUTSIDE),
        (lambda s, a, d: om.repeat(2, lambda i, x: x + d.uniform(), s.x), OUTSIDE),
        (lambda s, a, d: loop_of(s, d.reserve(1)), OUTSIDE),
        (lambda s, a, d: om.when(s.b, lambda x: d.reserve(1).uniform(), s.x), OUTSIDE),
        (lambda s, a, d: two_draws(s, d.reserve(1)), "than were reserved; reserve more"),
        (lambda s, a, d: d.reserve(s.n), "reserve: expected constant integers from 1 to .* got <Uint>"),
        (lambda s, a, d: d.turns(4, 0), "turns: expected constant integers from 1 to .* got 0"),
        (lambda s, a, d: d.turns(2**26, 2**26), "more draws than were reserved"),
        (lambda s, a, d: d.integer(5, 5), r"expected 0 <= low < high <= 4294967295, got low 5 and high 5"),
        (lambda s, a, d: d.integer(0), "got low 0 and high 0"),
        (lambda s, a, d: d.integer(-2, 3), "got low -2 and high 3"),
        (lambda s, a, d: d.integer(2.5), "integer takes whole numbers, got 2.5"),
        (lambda s, a, d: d.integer(1, s.n), "integer takes one Uint: its upper end; add the lower end"),
        (lambda s, a, d: d.uniform(0, s.x), r"uniform takes constants, got <Float>; scale what it draws"),
        (lambda s, a, d: d.uniform(1, 0), "uniform draws from 1 to 0, which is empty"),
        # Other arguments.
        (lambda s, a, d: om.packed(s.n), "iterating: a Uint is one number"),
        (lambda s, a, d: om.named("two words", s.x), "a name in CUDA is made of a-z, 0-9 and _"),
    ],
)
def test_steps(compute, says):
    with pytest.raises(operant.TraceError, match=says) as raised:
        operant.make_vec(made(step=step_of(compute)))
    helpers = [rule for rule in (loop_of, two_draws) if rule.__name__ in compute.__code__.co_names]
    expected = line_of(helpers[0], 1) if helpers else line_of(compute)
    assert re.match(expected, str(raised.value)), raised.value
    assert str(raised.value) == f"{raised.value.place}: {raised.value.what}"
# fmt: on


def test_a_loop_of_python():
    def step(self, s, action, draws):
        while s.x < 1:
            s.x = s.x + 1
        return s, 0.0, False

    with pytest.raises(operant.TraceError, match=line_of(step, 1) + "`if`, `while`.*where"):
        operant.make_vec(made(step=step))


def test_values_of_other_calls():
    def computes(self, s, action, draws):
        s.x = om.sqrt(kept.value)
        return s, 0.0, False

    def multiplies(self, s, action, draws):
        return s, kept.value * 2, False

    def assigns(self, s, action, draws):
        s.x = kept.value
        return s, 0.0, False

    def adds(self, s, action, draws):
        s.x = s.x + kept.value
        return s, 0.0, False

    def draws(self, s, action, draws):
        s.x = kept.draws.uniform()
        return s, 0.0, False

    for step in (computes, multiplies, adds):
        with pytest.raises(operant.TraceError, match=line_of(step, 1) + f".*{KEPT}"):
            operant.make_vec(made(step=step))
    with pytest.raises(operant.TraceError, match=line_of(assigns, 1) + f".*{KEPT}"):
        operant.make_vec(made(step=assigns))
    with pytest.raises(operant.TraceError, match=line_of(draws, 1) + "these draws belong to another call"):
        operant.make_vec(made(step=draws))
    with pytest.raises(operant.TraceError, match=f"step returns a state whose x .*{KEPT}"):
        operant.make_vec(made(step=lambda self, s, a, d: (kept.state, 0.0, False)))
    with pytest.raises(operant.TraceError, match=f"step returns .* for the reward: .*{KEPT}"):
        operant.make_vec(made(step=lambda self, s, a, d: (s, kept.value, False)))
    with pytest.raises(operant.TraceError, match="can be used only while the rules of a world are recorded"):
        om.sqrt(2.0)


def test_values_of_rules_that_not_every_environment_runs():
    def keeps(self, s, action, draws):
        kept = []
        om.when(s.b, lambda x: kept.append(x * 2) or x, s.x)
        return s, kept[0] + 1, False

    def assigns_a_field(self, s, action, draws):
        def rule(x):
            s.n = 7
            return x

        s.x = om.when(s.b, rule, s.x)
        return s, 0.0, False

    def writes_to_an_array(self, s, action, draws):
        def rule(index, x):
            s.many[index] = 7
            return x

        s.x = om.repeat(3, rule, s.x)
        return s, 0.0, False

    with pytest.raises(operant.TraceError, match=line_of(keeps, 3) + f".*{LEAKED}"):
        operant.make_vec(made(step=keeps))
    with pytest.raises(operant.TraceError, match=line_of(assigns_a_field) + f"step returns a state whose n .*{LEAKED}"):
        operant.make_vec(made(step=assigns_a_field))
    with pytest.raises(operant.TraceError, match=line_of(writes_to_an_array) + f"step returns a state whose many .*{LEAKED}"):
        operant.make_vec(made(step=writes_to_an_array))


def test_an_error_of_the_rule_itself_is_raised():
    for compute in (lambda s, a, d: om.when(s.b, lambda x: 1 / 0, s.x), lambda s, a, d: om.repeat(2, lambda i, x: 1 / 0, s.x)):
        with pytest.raises(ZeroDivisionError):
            operant.make_vec(made(step=step_of(compute)))


@pytest.mark.parametrize(
    ("method", "rule", "says"),
    [
        ("step", lambda self, s, a, d: s, r"step returns State\(.*; it returns a state, the reward and whether the episode terminated"),
        ("step", lambda self, s, a, d: (s, 0.0, False, False), "it returns a state, the reward"),
        ("step", lambda self, s, a, d: None, "step returns None"),
        ("step", lambda self, s, a, d: (0, 0.0, False), r"step returns 0; it returns a state: self\.State\(x=\.\., n=\.\.,"),
        ("step", lambda self, s, a, d: (s, s.n, False), r"<Uint> for the reward: a Float is expected, .*operant\.math\.to_float"),
        ("step", lambda self, s, a, d: (s, s.b, False), r"<Bool> for the reward: a Float is expected, .*operant\.math\.to_float"),
        ("step", lambda self, s, a, d: (s, True, False), "True for the reward: a Float is expected"),
        ("step", lambda self, s, a, d: (s, 0.0, s.x), "<Float> for terminated: a Bool is expected, got a Float; compare it"),
        ("step", lambda self, s, a, d: (s, 0.0, 0), "0 for terminated: a Bool is expected"),
        ("reset", lambda self, d: None, r"reset returns None; it returns a state: self\.State\("),
        ("reset", lambda self, d: d.uniform(), "reset returns <Float>; it returns a state"),
        ("observe", lambda self, s: [s.x, s.x], "observe returns 2 numbers for the observation; its space has 1"),
        ("observe", lambda self, s: [s.n], r"returns <Uint> for the observation: a Float is expected.*to_float"),
        ("observe", lambda self, s: None, "observe returns None for the observation: numbers are expected, got None"),
        ("observe", lambda self, s: om.packed([s.n]), "packed for the observation; a Box of floats cannot be packed"),
        ("legal", lambda self, s: [True, s.b], "legal returns 2 values; there are 3 choices"),
        ("legal", lambda self, s: [True, s.b, s.n], "legal returns <Uint> for choice 2: a Bool is expected"),
        ("legal", lambda self, s: None, "legal returns None: numbers are expected"),
        ("draw", lambda self, s: None, r"draw returns None; it returns a list of operant\.shapes"),
        ("draw", lambda self, s: [s.x], r"draw returns \[<Float>\]; it returns a list of operant\.shapes"),
        ("draw", lambda self, s: [shapes.circle((0, 0), s.b)], "draw returns <Bool> for a coordinate: a Float is expected"),
        ("draw", lambda self, s: [shapes.circle((0, 0), 1, where=s.n)], "<Uint> for the `where` of a shape: a Bool is expected"),
        ("draw", lambda self, s: [shapes.circle((0, 0), 1, tone="pink")], "tone: expected one of ground, .*, got 'pink'"),
        ("draw", lambda self, s: [shapes.polygon([(0, 0), (1, 1)])], r"points: expected at least 3 pairs \(x, y\)"),
        ("draw", lambda self, s: [shapes.circle((0, 0, 0), 1)], r"points: expected at least 1 pairs"),
    ],
)
def test_results(method, rule, says):
    with pytest.raises(operant.TraceError, match=says) as raised:
        operant.make_vec(made(**{method: rule}))
    assert re.match(line_of(rule), str(raised.value)), raised.value


@pytest.mark.parametrize(
    ("space", "observe", "says"),
    [
        (spaces.MultiBinary(3), lambda self, s: [s.b, s.b], "2 numbers for the observation; its space has 3"),
        (spaces.MultiBinary(3), lambda self, s: [s.b, s.b, s.n], "a Bool is expected, got a Uint; compare it"),
        (spaces.MultiBinary(33), lambda self, s: om.packed([s.n]), "1 packed words for .*; expected 2"),
        (spaces.Discrete(3), lambda self, s: s.x, r"a Uint is expected, got a Float; convert it with operant\.math\.to_uint"),
        (spaces.Dict(a=REAL, b=REAL), lambda self, s: {"a": s.x}, "for this Dict it returns a dictionary with a, b"),
        (spaces.Dict(a=REAL, b=REAL), lambda self, s: [s.x, s.x], "for this Dict it returns a dictionary with a, b"),
        (spaces.Dict(a=REAL, b=REAL), lambda self, s: {"a": s.x, "b": s.n}, "<Uint> for the observation's b: a Float is expected"),
    ],
)
def test_observations_of_other_spaces(space, observe, says):
    with pytest.raises(operant.TraceError, match=line_of(observe) + f"observe returns.* {says}"):
        operant.make_vec(made(observe=observe, observation_space=space))


def test_states_without_a_field():
    def reset(self, draws):
        return self.State(x=0.0, n=1, b=True, few=[0] * 4)

    says = r"the state has no i, many, grid; give every field: State\(x=\.\., n=\.\., i=\.\., b=\.\., few=\.\., many=\.\., grid=\.\.\)"
    with pytest.raises(operant.TraceError, match=line_of(reset, 1) + says):
        operant.make_vec(made(reset=reset))
    with pytest.raises(operant.TraceError, match="the state has no field speed"):
        operant.make_vec(made(reset=lambda self, draws: self.first(speed=0.0)))


def test_arrays_that_cannot_be():
    for size in (0, -1, 2.5, True, "4", 65_537):
        with pytest.raises(TypeError, match=r"Uint\[size\]: expected a size from 1 to 65536, got"):
            operant.Uint[size]
    for sizes, says in (((0, 4), r"Float\[size\]: expected a size"), ((300, 300), "at most 65536 elements, got 300 x 300"), ((2, 2, 2), "one or two dimensions, got 3")):
        with pytest.raises(TypeError, match=says):
            operant.Float[sizes]


def test_parts_may_have_the_names_of_other_inputs_and_outputs():
    names = ("action", "value", "logits", "action_mask", "pose_one_hot", "pose")
    world = made(observation_space=spaces.Dict(dict.fromkeys(names, REAL)), observe=lambda self, s: dict.fromkeys(names, [s.x]))
    assert set(operant.make_vec(world, 2).reset(seed=1)[0]) == set(names)


def without(*names):
    """The rules of `Fields` except some, in its own class."""
    members = {name: value for name, value in vars(Fields).items() if not name.startswith("__")}
    kept = {name: value for name, value in members.items() if name not in names}
    return type("Partial", (), {**kept, "__annotations__": inspect.get_annotations(Fields)})


@pytest.mark.parametrize("method", ["reset", "step", "observe"])
def test_missing_methods(method):
    with pytest.raises(TypeError, match=f"Partial: the method {method} is missing"):
        operant.world(without(method))


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_missing_spaces(space):
    with pytest.raises(TypeError, match=f"Partial: {space} is missing; give it to @operant.world, or as an attribute"):
        operant.make_vec(operant.world(without(space)))


def test_a_missing_limit():
    with pytest.raises(ValueError, match=r"Partial: max_episode_steps: expected a whole number from 1 to .*, got None; .* each has to end"):
        operant.make_vec(operant.world(without("max_episode_steps")))


@pytest.mark.parametrize(
    ("space", "error", "says"),
    [
        (spaces.Text(3), TypeError, "expected a Box, Discrete, MultiDiscrete, MultiBinary or Dict of Gymnasium, got Text"),
        (3, TypeError, "expected a Box, .*, got 3"),
        (spaces.Discrete(3, start=1), ValueError, "a Discrete space must have start=0, got 1"),
        (spaces.Box(1, 5, (2,), np.uint8), ValueError, "a Box of uint8 must have low=0"),
        (spaces.Dict(a=spaces.Dict(b=REAL)), TypeError, "nested Dict spaces are not supported"),
        (spaces.Dict(a=spaces.Text(3)), TypeError, "observation_space, a: expected a Box"),
        (spaces.Discrete(70_000), ValueError, "70000 is not from 1 to 65536"),
    ],
)
def test_observation_spaces_that_are_not_supported(space, error, says):
    with pytest.raises(error, match=f"Wrong: .*{says}"):
        operant.make_vec(made(observation_space=space, observe=lambda self, s: s.n))


@pytest.mark.parametrize(
    ("space", "error", "says"),
    [
        (spaces.MultiBinary(3), TypeError, "expected a Discrete or MultiDiscrete space from 0, or a Box of floats, got MultiBinary"),
        (spaces.Discrete(3, start=1), TypeError, "from 0"),
        (spaces.Box(0, 5, (2,), np.uint8), TypeError, "a Box of floats"),
        (REAL, ValueError, "needs finite bounds with low < high"),
    ],
)
def test_action_spaces_that_are_not_supported(space, error, says):
    with pytest.raises(error, match=f"Wrong: .*{says}"):
        operant.make_vec(made(action_space=space))
    with pytest.raises(operant.TraceError, match="legal is for Discrete and MultiDiscrete actions"):
        operant.make_vec(made(action_space=spaces.Box(-1, 1, (2,)), legal=lambda self, s: [True]))


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"name": "My World"}, ValueError, "name: expected a-z, 0-9 and _, starting with a letter.*got 'My World'"),
        ({"name": "class"}, ValueError, '"class"; use a-z.* no keyword of C'),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps: expected a whole number from 1 to .* got 0"),
        ({"max_episode_steps": 2**32}, ValueError, "max_episode_steps: .* got 4294967296"),
        ({"max_episode_steps": True}, ValueError, "max_episode_steps: .* got True"),
        ({"max_episode_steps": 2.5}, ValueError, "max_episode_steps: .* got 2.5"),
        ({"fps": float("inf")}, ValueError, "fps: expected a number above 0, got inf"),
        ({"preset": {"hidden": None}}, TypeError, "preset: expected a number, text or list, got None"),
    ],
)
def test_declarations(settings, error, says):
    with pytest.raises(error, match=says):
        operant.make_vec(operant.world(**settings)(type("Wrong", (Fields,), {})))


def test_a_field_assigned_inside_a_rule_is_not_assigned_everywhere():
    def step(self, s, action, draws):
        def rule(n):
            s.x = other
            return n

        other = s.x + 1.0
        s.n = operant.math.when(s.n == 1, rule, s.n)
        return s, 0.0, False

    with pytest.raises(operant.TraceError, match="computed inside a rule"):
        operant.make_vec(made(step=step))


def test_a_subclass_with_more_fields_needs_the_decorator():
    more = type("More", (made(),), {"__annotations__": {"speed": operant.Float}})
    with pytest.raises(TypeError, match="More: the class adds the field speed to Wrong; put @operant.world above it, too"):
        operant.make_vec(more)


def test_methods_that_the_decorator_gives():
    with pytest.raises(TypeError, match="Own: @operant.world adds emit to the class; rename your emit"):
        operant.world(type("Own", (Fields,), {"emit": lambda self: 1, "__annotations__": {"x": operant.Float}}))


def test_names_of_fields():
    for name in ("Speed", "_speed", "copy", "replace", "größe"):
        with pytest.raises(ValueError, match=f"Named: a field cannot be called {name}; names have a-z, 0-9 and _"):
            operant.world(type("Named", (Fields,), {"__annotations__": {name: operant.Float}}))
    with pytest.raises(ValueError, match='a field of the state has the name "float"'):
        operant.make_vec(made(__annotations__={"float": operant.Float}, first=lambda self: Fields.first(self, float=0.0)))
    with pytest.raises(TypeError, match=r"Empty: the state has no fields; annotate them.*`x: operant\.Float`"):
        operant.world(type("Empty", (), {"x": 3}))


def test_what_is_no_world():
    with pytest.raises(TypeError, match=r"decorates a class, not 'walk'; write @operant\.world\(\.\.\.\) above `class`"):
        operant.world("walk")
    for wrong in (Fields, 3, object()):
        with pytest.raises(TypeError, match=r"a world is expected: a class with @operant\.world"):
            operant.make_vec(wrong)
    for wrong in (3, object()):
        with pytest.raises(TypeError, match=r"expected the name of an environment, .* a world, a class of Gymnasium environments"):
            operant.train(wrong)


def test_an_empty_view():
    with pytest.raises(ValueError, match=r"the view from .* is empty"):
        operant.make_vec(operant.world(view=((0, 0), (0, 1)))(type("Wrong", (Fields,), {"draw": lambda self, s: []})))


COUNT, HISTORY, RNG, SETTINGS = 0, [], np.random.default_rng(5), types.ModuleType("settings")
SETTINGS.count = 1


class Settings:
    count = 0


def assigns_to_a_global(s):
    global COUNT
    COUNT += 1


def outside():
    """Rules that keep something outside of the state: the offset of the line that does, and what the error calls it."""
    count, box = 0, {"last": 0.0}

    def on_self(self, s, a, d):
        self.last = s.x
        return s, 0.0, False

    def counts_on_self(self, s, a, d):
        s.x = s.x + self.first_count
        self.first_count += 1
        return s, 0.0, False

    def on_the_class(self, s, a, d):
        type(self).turns = 3
        return s, 0.0, False

    def deletes(self, s, a, d):
        del self.size
        return s, 0.0, False

    def in_a_list_of_self(self, s, a, d):
        self.seen.append(1)
        return s, 0.0, False

    def in_a_nested_object(self, s, a, d):
        self.inner.count = 4
        return s, 0.0, False

    def in_an_array(self, s, a, d):
        self.array[1] += 1
        return s, 0.0, False

    def in_a_helper(self, s, a, d):
        assigns_to_a_global(s)
        return s, 0.0, False

    def in_a_global_list(self, s, a, d):
        HISTORY.append(s.x)
        return s, 0.0, False

    def in_another_class(self, s, a, d):
        Settings.count += 1
        return s, 0.0, False

    def in_a_module(self, s, a, d):
        SETTINGS.count = s.n
        return s, 0.0, False

    def in_a_closure(self, s, a, d):
        nonlocal count
        count += 1
        return s, 0.0, False

    def in_a_dictionary(self, s, a, d):
        box["last"] = s.x
        return s, 0.0, False

    def of_a_generator(self, s, a, d):
        s.x = RNG.uniform()
        return s, 0.0, False

    return [
        (on_self, 1, "self.last"), (counts_on_self, 2, "self.first_count"), (on_the_class, 1, "Wrong.turns"), (deletes, 1, "self.size"),
        (in_a_list_of_self, 1, "self.seen"), (in_a_nested_object, 1, "self.inner"), (in_an_array, 1, "self.array"),
        (in_a_helper, None, "COUNT"), (in_a_global_list, 1, "HISTORY"), (in_another_class, 1, "Settings"),
        (in_a_module, 1, "SETTINGS.count"), (in_a_closure, 2, "count"),
        (in_a_dictionary, 1, "box"), (of_a_generator, 1, "RNG"),
    ]  # fmt: skip


@pytest.mark.parametrize(("step", "offset", "name"), outside(), ids=lambda it: getattr(it, "__name__", None))
def test_rules_that_change_what_is_not_in_the_state(step, offset, name):
    def init(self):
        self.size, self.seen, self.array, self.inner, self.first_count = 3, [], np.zeros(3), Settings(), 1

    place = line_of(step, offset) if offset else line_of(assigns_to_a_global, 2)
    says = f"{place}step changes {re.escape(name)}, which is not in the state.*make it a field"
    with pytest.raises(operant.TraceError, match=says):
        operant.make_vec(made(step=step, __init__=init))


def test_rules_may_read_what_is_not_in_the_state():
    class Reads(Fields):
        def __init__(self):
            self.factor, self.table = 2.0, np.arange(4)

        @functools.cached_property
        def made_once(self):
            return float(self.table.sum())

        def step(self, s, action, draws):
            local = [s.x]
            local.append(s.x * self.factor * self.made_once)
            s.x = local[-1] + Settings.count + len(HISTORY) + np.random.default_rng(3).uniform()
            return s, 0.0, False

    operant.make_vec(operant.world(Reads))


def test_caches_of_installed_packages_are_not_of_the_world(tmp_path, monkeypatch):
    """But those of the package that has the world are."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    package = "CACHE, COUNT = {}, 0\ndef double(x):\n    global COUNT\n    COUNT += 1\n    return CACHE.setdefault(x, 2 * x)\n"
    (packages / "cached_package.py").write_text(package)
    monkeypatch.syspath_prepend(packages)
    import cached_package
    from cached_package import double

    @step_of
    def step(s, action, draws):
        s.x = s.x * double(3.0) + cached_package.double(5.0) + cached_package.COUNT * 0.0

    made(step=step).emit()
    assert cached_package.CACHE == {3.0: 6.0, 5.0: 10.0}
    with pytest.raises(operant.TraceError, match="step changes .*COUNT, which is not in the state"):
        made(step=step, __module__="cached_package").emit()


class Cell:
    """Knows its neighbours, which know it."""

    def __init__(self):
        self.neighbours = []

    @functools.cached_property
    def degree(self):
        return float(len(self.neighbours))


def test_what_rules_read_may_be_large_connected_and_made_when_it_is_first_used():
    class Connected(Fields):
        def __init__(self):
            grid = [[Cell() for _ in range(12)] for _ in range(12)]
            for y, row in enumerate(grid):
                for x, cell in enumerate(row):
                    cell.neighbours = [grid[v][u] for v in range(max(0, y - 1), min(12, y + 2)) for u in range(max(0, x - 1), min(12, x + 2))]
            self.cells, self.data = grid, np.zeros(1_000_000)

        def step(self, s, action, draws):
            logging.info("recorded")
            fullmatch("a", "a")
            waves = float(np.polynomial.Polynomial([1.0, 2.0])(3.0)) * self.cells[0][0].degree
            s.x = om.table([float("nan"), 1.0])[s.n % 2] + waves
            for _ in range(30):
                s.n = s.n * s.n + 1
            return s, 0.0, False

    operant.make_vec(operant.world(Connected))


@pytest.mark.parametrize(
    "number",
    [
        lambda: time.time(), lambda: time.perf_counter(), lambda: next(NUMBERS), lambda: float(uuid.uuid4().int % 10**9),
        lambda: float(np.random.default_rng().integers(10**9)),
    ],
)  # fmt: skip
def test_numbers_that_differ_each_time(number):
    def in_step(self, s, a, d):
        s.x = s.x * 2
        s.x = s.x + number()
        return s, 0.0, False

    def in_a_table(self, s, a, d):
        s.x = om.table([1.0, number()])[s.n]
        return s, 0.0, False

    def chooses(self, s, a, d):
        bits = hash(repr(number()))  # 40 choices, so that two numbers do not make the same ones
        for k in range(40):
            s.x = s.x * 2 if bits >> k & 1 else s.x + 1
        return s, 0.0, False

    rules = [("step", in_step, 2), ("step", in_a_table, 1), ("reset", lambda self, draws: self.first(x=om.to_float(number())), 0)]
    rules += [("observe", lambda self, s: [s.x + number()], 0), ("step", chooses, 3)]
    for method, rule, offset in rules:
        says = line_of(rule, offset) + "the rules compute something else each time that they are recorded .*draw from the argument `draws`"
        with pytest.raises(operant.TraceError, match=says):
            operant.make_vec(made(**{method: rule}))


@pytest.mark.parametrize(("number", "name"), [(np.random.uniform, "np.random"), (random.random, "random"), (lambda: np.random.randint(2), "np.random")])
def test_random_numbers_of_python(number, name):
    def step(self, s, a, d):
        s.x = s.x + 1 if number() < 0.5 else s.x
        return s, 0.0, False

    with pytest.raises(operant.TraceError, match=rf"step draws from {name}\. .* one constant for all environments.*draw from the argument `draws`"):
        operant.make_vec(made(step=step))

    def mentions(self, s, a, d):
        s.x = s.x * 2
        s.x = s.x + np.random.uniform() + random.random()
        return s, 0.0, False

    with pytest.raises(operant.TraceError, match=line_of(mentions, 2) + r"step draws from (np\.)?random"):
        operant.make_vec(made(step=mentions))


def test_recording_leaves_the_random_numbers_of_the_program_alone():
    random.seed(3), np.random.seed(3)
    operant.make_vec(made())
    drawn = random.random(), np.random.random()
    random.seed(3), np.random.seed(3)
    assert drawn == (random.random(), np.random.random())


NUMBERS = iter(range(10**9))


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"step": lambda self, s, action: (s, 0.0, False)}, r"step has the parameters \(self, s, action\); declare it as def step\(self, s, action, draws\)"),
        ({"reset": lambda self: self.first()}, r"reset has the parameters \(self\); declare it as def reset\(self, draws\)"),
        ({"observe": lambda self, s, draws: [s.x]}, r"observe has the parameters \(self, s, draws\); .* def observe\(self, s\)"),
        ({"legal": lambda self: []}, r".*declare it as def legal\(self, s\)"),
    ],
)
def test_rules_with_other_parameters(rules, says):
    (rule,) = rules.values()
    with pytest.raises(operant.TraceError, match=f"^{line_of(rule)}{says}"):
        made(**rules).emit()


def test_missing_names_are_attribute_errors_too():
    assert not hasattr(om, "max") and getattr(om, "max", None) is None

    def step(self, s, action, draws):
        assert not hasattr(draws, "gauss") and not hasattr(s.x, "clip") and not hasattr(s.few, "append")
        return s, 0.0, False

    made(step=step).emit()
