"""What keeps slices to their size: limits in force, the watchdog behind them, the record of both.

Who holds a slice and why is not known here.
Read `guard` first, then `watchdog_policy`: when a slice is warned and stopped.
"""
