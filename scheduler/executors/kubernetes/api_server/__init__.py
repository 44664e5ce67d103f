"""Requests to the API server: who we are, what is watched, what is ordered, what was refused.

What an object means is not known here.
Read `connection` first.
"""
