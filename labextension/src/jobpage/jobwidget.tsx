/** A job's page as a tab of the main area. What draws it comes when the first is opened. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type * as React from 'react';

import { chunk } from '../components/chunk';
import { IPanelContext, PanelContext } from '../components/context';
import { h } from '../components/h';
import { keepFocus } from '../components/focus';
import { FollowedJob } from '../model/followed';
import { gpuIcon } from '../lab/icons';
import { hasRequest } from '../model/jobs';
import { IJob } from '../server/types';

const JobPage = chunk(() =>
  import(/* webpackChunkName: "page-job" */ './jobpage').then(
    page => page.JobPage
  )
);

class JobContent extends ReactWidget {
  constructor(
    context: IPanelContext,
    readonly followed: FollowedJob
  ) {
    super();
    this._context = { ...context, isShown: () => this.isVisible };
    this.addClass('gc-JobPage-widget');
    keepFocus(this.node);
  }

  render(): React.JSX.Element {
    return (
      <PanelContext.Provider value={this._context}>
        <JobPage followed={this.followed} />
      </PanelContext.Provider>
    );
  }

  dispose(): void {
    this.followed.dispose();
    super.dispose();
  }

  private readonly _context: IPanelContext;
}

export class JobWidget extends MainAreaWidget<JobContent> {
  constructor(context: IPanelContext, id: string) {
    const followed = context.model.follow(id);
    super({ content: new JobContent(context, followed) });
    this.jobId = id;
    this.id = `gpucommons-job-${id}`;
    this.title.closable = true;
    this.title.icon = gpuIcon;
    this.title.label = followed.job?.name ?? context.msg.trans.__('Job');
    followed.changed.connect(this._onChanged, this);
    if (!hasRequest(followed.job)) {
      void this._load(context);
    }
  }

  readonly jobId: string;

  /** A restored tab may show a job that is no longer in the list. */
  private async _load(context: IPanelContext): Promise<void> {
    try {
      this._take(await context.model.api.job(this.jobId));
      const curve = await context.model.api.curve(this.jobId);
      this.content.followed.handle({
        type: 'curve',
        job: this.jobId,
        ...curve
      });
    } catch {
      // The stream brings the job as soon as the scheduler can be reached.
    }
  }

  private _take(job: IJob): void {
    if (!this.content.followed.isDisposed) {
      this.content.followed.update(job);
    }
  }

  private _onChanged(followed: FollowedJob): void {
    const name = followed.job?.name;
    if (name !== undefined) {
      this.title.label = name;
    }
  }
}
