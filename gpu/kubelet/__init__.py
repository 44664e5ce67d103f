"""The kubelet's sockets: pods' volumes, device plugins' lists, and which pod got which device.

The only folder that speaks gRPC; what a slice is, others decide.
Read `node` first.
"""
