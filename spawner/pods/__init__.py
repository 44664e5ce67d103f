"""A notebook's pod: its slice and nothing of anybody else's, and Kubernetes' messages in words.

Pure but for `pod_objects`; when a pod is made, `kube` says.
Read `pod` first, then `pod_slice`.
"""
