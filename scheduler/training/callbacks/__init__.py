"""One line in a script of Transformers, Lightning or Keras: curve, checkpoints with receipts, leaving in time.

A module for each framework, which imports it; nothing else here does. Each saves as its framework saves,
hands that in as a checkpoint of the run, and has the framework go on from it after a stop. What the last
attempt handed in is put back where the framework looks for it, also where the working folder is another.
Read ``handing_in`` first.
"""
