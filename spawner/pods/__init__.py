"""A notebook's pod: its slice and nothing of anybody else's, and Kubernetes' messages in words.

`pod` fits it at last: labels, annotations, tolerations, placement, containers' resources and variables. `slice_injection`
says what of that the slice needs, `pod_words` what Kubernetes says of it. Pure but for `pod_objects`; when a pod is
made, `kube` says.
Read `pod` first, then `slice_injection`.
"""
