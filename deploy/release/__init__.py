"""Makes what is released: images as OCI archives, the chart, checksums. Nothing here is shipped.

It needs neither a container engine nor a registry. Read `contents`, then `images`.
"""
