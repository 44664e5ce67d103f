"""What tokens of this hub may do with GPUs: the scopes that our service and the hub's roles name."""

#: The name of the service that carries pages and API; its URL and its scopes contain it.
SERVICE = "gpucommons"
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
