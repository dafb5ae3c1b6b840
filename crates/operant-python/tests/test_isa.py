"""Which engine a wheel takes, for CPUs that are made up."""

import pytest

from operant import _isa

BOTH = ["v3", "v4"]
V3 = _isa.LEVELS["v3"]
V4 = f"{V3} {_isa.LEVELS['v4']}"


def cpu(flags):
    """What /proc/cpuinfo says about a machine with two such CPUs."""
    one = f"processor\t: 0\nmodel name\t: Made Up\nflags\t\t: fpu sse2 {flags} nx\nvmx flags\t: vnmi\n\n"
    return one * 2


@pytest.mark.parametrize(
    ("built", "flags", "asked", "level"),
    [
        (BOTH, V4, None, "v4"),
        (BOTH, V3, None, "v3"),
        (BOTH, V4, "v3", "v3"),
        (BOTH, V4, "v4", "v4"),
        (BOTH, V4, "", "v4"),
        (BOTH, V4.replace("avx512vl", ""), None, "v3"),
        (["v3"], V4, None, "v3"),
        ([], V3, None, None),
        ([], "", None, None),
    ],
)
def test_the_best_level_that_the_cpu_has_or_the_one_asked_for(built, flags, asked, level):
    assert _isa.choose(built, cpu(flags), asked) == level


def test_a_cpu_that_lists_no_flags_is_taken_for_the_lowest_level():
    assert _isa.choose(BOTH, "", None) == "v3"
    assert _isa.choose(BOTH, "processor\t: 0\n", "v4") == "v4"


@pytest.mark.parametrize(
    ("built", "flags", "asked", "parts"),
    [
        (BOTH, V3.replace("avx2", "").replace("fma", ""), None, ["too old", "lacks avx2 fma (x86-64-v3)", "pip install ."]),
        (BOTH, "", "v4", ["OPERANT_ISA=v4", "avx2", "avx512f", "pip install ."]),
        (BOTH, V3, "v4", ["this CPU lacks avx512f", "unset OPERANT_ISA"]),
        (BOTH, V4, "v5", ["OPERANT_ISA=v5", "v3 or v4"]),
        (["v3"], V4, "v4", ["has v3 only"]),
        ([], V4, "v3", ["built from source", "unset OPERANT_ISA"]),
    ],
)
def test_what_cannot_be_had_is_one_error_that_says_what_to_do(built, flags, asked, parts):
    with pytest.raises(ImportError) as error:
        _isa.choose(built, cpu(flags), asked)
    assert all(part in str(error.value) for part in parts), error.value


def test_a_level_is_a_directory_of_the_package(tmp_path, monkeypatch):
    monkeypatch.delenv(_isa.VARIABLE, raising=False)
    assert _isa.directories(str(tmp_path)) == []
    (tmp_path / "_v3").mkdir()
    monkeypatch.setattr(_isa, "_flags", lambda cpuinfo: set(V3.split()))
    assert _isa.directories(str(tmp_path)) == [str(tmp_path / "_v3")]
