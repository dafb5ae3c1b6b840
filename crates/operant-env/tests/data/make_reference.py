"""Makes the reference data in this directory, one recipe an environment (see README.md): `make_reference.py [ENVIRONMENT]..`."""

import argparse
import gzip
import json
import pathlib

import numpy as np
from reference import HERE, Collection, recipe, replay


def answer_again(collection, directory):
    """The cases in `directory` of a task of MuJoCo, answered by plain Gymnasium: MuJoCo's solver stops as early as it does by default."""
    env, facts = collection.env, collection.recipe.REFERENCE
    env.solve(env.default)
    tolerance = {**facts["tolerance"], "step": 1e-5, "end": 1e-4, "reward": 1e-5}
    if "f32_obs" in tolerance:
        tolerance["obs"] = 1e-3  # forces
    collection.recipe.REFERENCE = {**facts, "tolerance": tolerance}
    with gzip.open(directory / f"{collection.name}.cases.jsonl.gz", "rt") as cases:
        collection.cases = [json.loads(line) for line in cases]
    collection.expected = [replay(env, case["state"], case["actions"])[0] for case in collection.cases]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="ENVIRONMENT", help="default: all")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="directory to write to (default: this one)")
    parser.add_argument("--seed", type=int, help="in place of the recipe's")
    parser.add_argument("--states", type=int, help="number of cases, where the recipe has a choice: MuJoCo's tasks")
    parser.add_argument(
        "--plain", type=pathlib.Path, metavar="DIRECTORY", help="answer the cases there with MuJoCo's default solver (MuJoCo's tasks)"
    )
    options = parser.parse_args()
    more = {} if options.states is None else {"states": options.states}
    for name in options.names or sorted(path.name.split(".")[0] for path in HERE.glob("*.recipe.py")):
        if hasattr(recipe(name), "family"):
            recipe(name).family()
            continue
        collection = Collection(name)
        if options.plain:
            answer_again(collection, options.plain)
            collection.write(options.out)
            continue
        seed = collection.recipe.SEED if options.seed is None else options.seed
        collection.recipe.cases(collection, np.random.default_rng(seed), **more)
        collection.write(options.out)


if __name__ == "__main__":
    main()
