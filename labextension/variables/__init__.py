"""Variables of kernels that end with their server: stored before, offered at the next start.

For where kernels cannot be kept whole. Nothing is loaded without a press of its owner, in the kernel
that the owner chose: loading runs code. Read `keeper` first.
"""
