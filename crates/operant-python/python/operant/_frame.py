"""DataFrames of runs and sweeps; pandas is imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas

# Columns of a sweep's runs after their settings, and their types. Counts that are not known yet are pandas.NA, other numbers NaN.
_RESULTS = {
    "seed": "int64",
    "state": "str",
    "objective": "float64",
    "eval_return_mean": "float64",
    "eval_return_std": "float64",
    "env_steps": "Int64",
    "updates": "Int64",
    "solved_at_step": "Int64",
    "solved_at_s": "float64",
    "train_s": "float64",
    "wall_s": "float64",
    "sps": "float64",
    "error": "object",
    "dir": "str",
}


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ImportError("to_pandas needs pandas: pip install pandas") from error


def of_runs(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """The runs of a sweep, by name; a column for each setting that varies."""
    pd = _pandas()
    settings = list(dict.fromkeys(key for row in rows for key in row["settings"]))
    index = pd.Index([row["run"] for row in rows], name="run", dtype="str")
    columns: dict[str, Any] = {
        "trial": pd.Series([row["trial"] for row in rows], index, "int64"),
        "env": pd.Series([row["env"] for row in rows], index, "str"),
    }
    for key in settings:
        columns[key] = pd.Series([_hashable(row["settings"].get(key)) for row in rows], index)
    for name, dtype in _RESULTS.items():
        columns[name] = pd.Series([row[name] for row in rows], index, dtype)
    frame: pandas.DataFrame = pd.DataFrame(columns)
    return frame


def of_metrics(metrics: NDArray[np.void]) -> pandas.DataFrame:
    """The updates of a run, by environment steps."""
    pd = _pandas()
    columns: Mapping[str, Any] = {name: metrics[name] for name in metrics.dtype.names or ()}
    frame: pandas.DataFrame = pd.DataFrame(columns).astype({"update": "int64", "env_steps": "int64"}).set_index("env_steps")
    return frame


def _hashable(value: Any) -> Any:
    """A list, such as `hidden`, as a tuple, by which `groupby` can group."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
