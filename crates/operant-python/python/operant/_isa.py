"""Chooses the engine for this CPU. A wheel has one built for each of `LEVELS`, in `operant/_v3` and `operant/_v4`; a build from
source has one, `operant/_core`, which is always taken."""

from __future__ import annotations

import itertools
import os

# The flags that each level of x86-64 adds to the previous one, best last, by the names in /proc/cpuinfo.
LEVELS = {
    "v3": "pni ssse3 sse4_1 sse4_2 cx16 lahf_lm popcnt abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}

# The variable that overrides the choice.
VARIABLE = "OPERANT_ISA"

_REMEDY = "build operant from source for this CPU: `pip install .` in the root of its repository, with a Rust toolchain"


def directories(package: str) -> list[str]:
    """The directory of the chosen engine, next to those of the package in the directory `package`; none if it was built from source."""
    built = [level for level in LEVELS if os.path.isdir(os.path.join(package, "_" + level))]
    try:
        with open("/proc/cpuinfo") as file:
            # The first CPU is enough, and hundreds of them take long to read.
            cpuinfo = "".join(itertools.takewhile(str.strip, file))
    except OSError:
        cpuinfo = ""
    level = choose(built, cpuinfo, os.environ.get(VARIABLE))
    return [os.path.join(package, "_" + level)] if level else []


def choose(built: list[str], cpuinfo: str, asked: str | None) -> str | None:
    """The requested level, else the best of the levels `built` that the CPU supports; None if nothing was built for a level.

    If the CPU's flags cannot be read, it is assumed to support the lowest level and the requested one."""
    if asked and asked not in LEVELS:
        raise ImportError(f"{VARIABLE}={asked}: expected {' or '.join(LEVELS)}")
    if not built:
        if asked:
            raise ImportError(f"{VARIABLE}={asked}: operant was built from source, for one CPU; unset {VARIABLE}")
        return None
    if asked and asked not in built:
        raise ImportError(f"{VARIABLE}={asked}: this wheel has {' and '.join(built)} only")
    flags = _flags(cpuinfo)
    if flags is None:
        return asked or built[0]
    missing = {level: [flag for flag in _needed(level) if flag not in flags] for level in built}
    fitting = [level for level in built if not missing[level]]
    wanted = asked or (fitting[-1] if fitting else built[0])
    if missing[wanted]:
        what = f"{VARIABLE}={asked}: this CPU" if asked else "this CPU is too old for operant's wheel: it"
        remedy = f"unset {VARIABLE}" if asked and fitting else _REMEDY
        raise ImportError(f"{what} lacks {' '.join(missing[wanted])} (x86-64-{wanted}); {remedy}")
    return wanted


def _flags(cpuinfo: str) -> set[str] | None:
    """The CPU's flags, if it lists any."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    return next((set(value.split()) for key, _, value in lines if key.strip() == "flags"), None)


def _needed(level: str) -> list[str]:
    """Every flag of a level and of the levels below it."""
    names = list(LEVELS)
    return " ".join(LEVELS[name] for name in names[: names.index(level) + 1]).split()
