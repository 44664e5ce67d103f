"""The folder in which a job's commands run: one in all attempts, and at the end it is the result.

It is made of the snapshot for the first attempt. Each later one gets it by a rename, so what a script
keeps beside itself is there again. What was changed in it since the snapshot comes back to its owner.
"""
