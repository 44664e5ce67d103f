"""Of a pool that says nothing: the one list for core, clients and forms.

It stands below all of them, for clients do not import the core, and the core knows no bodies of requests.
What each is for stands at its field in the core's ``Pool``.
"""

from __future__ import annotations

#: From a node's order to its work, with a GPU's driver and device plugin.
BOOT_S = 300
NOTICE_S = 30
GRACE_S = 30
#: What was borrowed so long ago counts half when the surplus is divided.
HALF_LIFE_S = 86_400
JOB_OFFER_AFTER_S = 1_800
LEND_AFTER_S = 1_800
MIN_RUN_S = 1_800
MOVED_PERMILLE = 20
UNLENT_PERMILLE = 20
#: In milli-GPU.
NOTEBOOK_SIZES = (250, 500, 1000)
