"""Lets the tests import the package `gateway`.

pytest names test modules after their folders, `gateway.tests.…`, and makes a module of the folder `gateway` to hold them,
which then stands where the package of the same name belongs.
"""

import sys

if getattr(sys.modules.get("gateway"), "__file__", None) is None:
    sys.modules.pop("gateway", None)
