"""Makes the reference data in this directory, one recipe an environment (see README.md): `make_reference.py [ENVIRONMENT]..`."""

import sys

import numpy as np
from reference import HERE, Collection, recipe


def main():
    for name in sys.argv[1:] or sorted(path.name.split(".")[0] for path in HERE.glob("*.recipe.py")):
        if hasattr(recipe(name), "family"):
            recipe(name).family()
            continue
        collection = Collection(name)
        collection.recipe.cases(collection, np.random.default_rng(collection.recipe.SEED))
        collection.write()


if __name__ == "__main__":
    main()
