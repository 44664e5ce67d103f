"""Servers of an ordinary account below root's program, where namespaces of users are forbidden."""
