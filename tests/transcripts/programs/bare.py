"""Import single modules of a package without running its __init__, which would want all of its dependencies."""

import sys
import types
from pathlib import Path


def packages(*names):
    root = Path(sys.argv[1])
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = module
