"""Makes the reference data in this directory, one recipe an environment (see README.md): `make_reference.py [ENVIRONMENT]..`."""

import argparse
import pathlib

import numpy as np
from reference import HERE, Collection, recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="ENVIRONMENT", help="default: all")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="directory to write to (default: this one)")
    parser.add_argument("--seed", type=int, help="in place of the recipe's")
    parser.add_argument("--states", type=int, help="number of cases, where the recipe has a choice: MuJoCo's tasks")
    options = parser.parse_args()
    more = {} if options.states is None else {"states": options.states}
    for name in options.names or sorted(path.name.split(".")[0] for path in HERE.glob("*.recipe.py")):
        if hasattr(recipe(name), "family"):
            recipe(name).family()
            continue
        collection = Collection(name)
        seed = collection.recipe.SEED if options.seed is None else options.seed
        collection.recipe.cases(collection, np.random.default_rng(seed), **more)
        collection.write(options.out)


if __name__ == "__main__":
    main()
