/** Shows a file of steps, and runs it: what is refused is told where one can press again. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ReadonlyPartialJSONObject, UUID } from '@lumino/coreutils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import * as React from 'react';

import { chooseFile, clickedFile } from '../lab/choosing';
import type { IPanelContext } from '../components/context';
import { h } from '../components/h';
import { Callout } from '../components/parts';
import { CommandIDs } from '../lab/ids';
import { nextKey, told } from '../server/api';
import {
  IPipeline,
  IPipelineFile,
  pipelineFileOf,
  runPipelineFile
} from '../server/pipelines';
import { contextOf, isSteps } from '../submission/documents';
import { PipelineMessages, pipelineMessages } from './messages';
import { folderLines, stepLine, teamsToChoose } from './pipelinefile';

export interface IRunOptions {
  app: JupyterFrontEnd;
  context: IPanelContext;
  files: IFileBrowserFactory | null;
}

/** Show what a file would run, and run it where that is wanted. */
export async function runPipeline(
  options: IRunOptions,
  args: ReadonlyPartialJSONObject
): Promise<void> {
  const { app, context } = options;
  const msg = pipelineMessages(context.msg);
  const path = await pathOf(options, args, msg);
  if (path === null) {
    return;
  }
  await saveOpen(app, path);
  const made = await asked(context, path, msg);
  if (made !== null) {
    const wanted = `${made.owner}/${made.name}`;
    await app.commands.execute(CommandIDs.pipelines, { wanted });
  }
}

async function pathOf(
  { app, files }: IRunOptions,
  args: ReadonlyPartialJSONObject,
  msg: PipelineMessages
): Promise<string | null> {
  if (typeof args['path'] === 'string') {
    return args['path'];
  }
  const isContext = args['isContext'] === true;
  const clicked = isContext ? clickedFile(app, files) : null;
  if (clicked !== null) {
    return clicked;
  }
  const inFront = contextOf(app.shell.currentWidget)?.path ?? '';
  if (args['asks'] !== true && isSteps(inFront)) {
    return inFront;
  }
  return chooseFile(files, { title: msg.fileToRun(), accepts: isSteps });
}

/** What runs is what one sees in its editor. */
async function saveOpen({ shell }: JupyterFrontEnd, path: string) {
  for (const widget of shell.widgets('main')) {
    const document = contextOf(widget);
    if (document?.path === path && document.model.dirty) {
      await document.save();
    }
  }
}

/** Ask until it runs or is left; null where it is left. */
async function asked(
  { model }: IPanelContext,
  path: string,
  msg: PipelineMessages
): Promise<IPipeline | null> {
  let key: string = UUID.uuid4();
  const { trans } = msg;
  let problem: string | null = null;
  for (;;) {
    let file: IPipelineFile | null = null;
    try {
      file = await pipelineFileOf(model.api, path);
    } catch (error) {
      problem = told(error);
    }
    const body = new Steps(file, problem, model.whoami?.teams ?? [], msg);
    const { button } = await showDialog({
      title: file ? msg.runTitle(file.name) : msg.cannotRun(path),
      body,
      buttons: [
        Dialog.cancelButton({
          label: file ? trans.__('Not now') : trans.__('Close')
        }),
        Dialog.okButton({
          label: file ? trans.__('Run it') : trans.__('Try again')
        })
      ]
    });
    if (!button.accept) {
      return null;
    }
    problem = null;
    if (file !== null) {
      try {
        return await runPipelineFile(model.api, file, body.team, key);
      } catch (error) {
        problem = told(error);
        key = nextKey(key, error);
      }
    }
  }
}

class Steps extends ReactWidget {
  constructor(
    private readonly _file: IPipelineFile | null,
    private readonly _problem: string | null,
    private readonly _teams: readonly string[],
    private readonly _msg: PipelineMessages
  ) {
    super();
    this.addClass('gc-PipelineFile');
  }

  /** Chosen where the file names none. */
  team: string | null = null;

  render(): React.JSX.Element {
    const [file, msg] = [this._file, this._msg];
    const teams = file ? teamsToChoose(file, this._teams) : [];
    return (
      <div>
        {this._problem === null ? null : (
          <Callout tone="error">{this._problem}</Callout>
        )}
        {file === null ? null : <StepTable file={file} msg={msg} />}
        {file?.team == null ? null : (
          <p>
            {msg.trans.__('Team')} {file.team}
          </p>
        )}
        {teams.length === 0 ? null : (
          <label>
            {msg.trans.__('Team')}{' '}
            <select
              className="jp-mod-styled"
              defaultValue=""
              onChange={event => {
                this.team = event.target.value || null;
              }}
            >
              <option value="">{msg.trans.__('Choose…')}</option>
              {teams.map(team => (
                <option key={team}>{team}</option>
              ))}
            </select>
          </label>
        )}
        {file === null
          ? null
          : folderLines(file, msg).map(line => (
              <p key={line} className="gc-Muted">
                {line}
              </p>
            ))}
      </div>
    );
  }
}

function StepTable(props: {
  file: IPipelineFile;
  msg: PipelineMessages;
}): React.JSX.Element {
  const lines = props.file.steps.map(each => stepLine(each, props.msg));
  return (
    <table className="gc-Runs" aria-label={props.msg.trans.__('Steps')}>
      <tbody>
        {lines.map(line => (
          <tr key={line.name}>
            <th scope="row">{line.name}</th>
            <td>
              {line.runs.map((each, index) => (
                <div key={index} className="gc-PipelineFile-runs">
                  {each}
                </div>
              ))}
              {[line.needs, line.uses].map(each =>
                each === '' ? null : (
                  <div key={each} className="gc-Muted">
                    {each}
                  </div>
                )
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
