"""What runs that were kept teach: the formula's constants, and how trainings scale over links.

Pure: whoever asks brings the runs, and says which project and environment it asks for. Read `training`
first, then `learned`.
"""
