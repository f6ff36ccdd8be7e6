"""Names what this environment lacks on Debian 12's Python, whichever Python runs it: what a package needs only below
3.11.3 is missed by `pip check` on a newer one.
"""

import sys
from importlib.metadata import distributions

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

DEBIAN_12 = {"python_version": "3.11", "python_full_version": "3.11.2", "extra": ""}

there = {canonicalize_name(each.metadata["Name"]): each.version for each in distributions()}
holes = []
for each in distributions():
    for needed in map(Requirement, each.requires or []):
        if needed.marker and not needed.marker.evaluate(DEBIAN_12):
            continue
        version = there.get(canonicalize_name(needed.name))
        if version is None or not needed.specifier.contains(version, prereleases=True):
            holes.append(f"{each.metadata['Name']} {each.version} needs {needed} on Python 3.11.2, not {version}")
print("\n".join(sorted(holes)))
sys.exit(bool(holes))
