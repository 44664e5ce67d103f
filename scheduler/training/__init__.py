"""What a training script needs to be stopped and resumed: a few lines.

::

    from gpucommons.scheduler import training

    run = training.current()
    for epoch in range(run.resume_step(), 50):
        ...
        run.report(step=epoch + 1, total_steps=50, loss=loss)
        with run.checkpoint(step=epoch + 1) as folder:
            save(folder / "model.npz")
        if run.should_stop:
            run.stop_now()

After a stop was announced, leaving counts as obeying, whatever the exit status: the job goes on later.
A script that is done all the same says ``run.finished()``, or has its loop in
``with training.current() as run:``.

Outside the scheduler the same script runs to its end: reports are dropped and checkpoints lie in
``./checkpoints``.
"""

from gpucommons.scheduler.training.run import Run, current

__all__ = ["Run", "current"]
