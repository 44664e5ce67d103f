"""What tokens of a hub may do with GPUs: the scopes that the hub's roles give and the scheduler asks for.

The spawner's part writes them into a hub; ``gpucommons doctor --cluster`` asks a hub whether it has them.
"""

#: The name of the service that carries pages and API; its URL and its scopes contain it.
SERVICE = "gpucommons"
CULLER_SERVICE = "gpucommons-culler"
SPAWNER_SERVICE = "gpucommons-spawner"
#: Only on Kubernetes: what turns objects of the cluster into teams and jobs.
OPERATOR_SERVICE = "gpucommons-operator"
ACCESS = f"access:services!service={SERVICE}"
READ = "custom:gpucommons:read"
SUBMIT = "custom:gpucommons:submit"
ADMIN = "custom:gpucommons:admin"
LEASE = "custom:gpucommons:lease"

CUSTOM_SCOPES = {
    READ: {"description": "See GPUs, quotas, and one's own jobs"},
    SUBMIT: {"description": "Run jobs and wait for GPUs", "subscopes": [READ]},
    ADMIN: {
        "description": "Set GPU quotas, reclaim GPUs, fence nodes",
        "subscopes": [SUBMIT],
    },
    LEASE: {"description": "Take and end the GPU leases of notebook servers"},
}
#: What every user adds to the hub's own ``user`` role.
USER_SCOPES = [ACCESS, f"{SUBMIT}!user"]
#: What a notebook server's own token may do: its user's work, never an admin's.
SERVER_SCOPES = ["users:activity!user", "access:servers!server", *USER_SCOPES]
#: The scheduler starts the server of a ticket whose turn has come, and stops one it reclaims.
SCHEDULER_SCOPES = ["servers", "list:users", "read:users:name", "read:users:groups"]
CULLER_SCOPES = ["read:servers", "list:users", "read:users:name", "delete:servers", LEASE]
#: What the role of each service gives it.
SCOPES_OF_SERVICES = {
    SERVICE: SCHEDULER_SCOPES,
    CULLER_SERVICE: CULLER_SCOPES,
    SPAWNER_SERVICE: [LEASE],
    OPERATOR_SERVICE: [ADMIN],
}
