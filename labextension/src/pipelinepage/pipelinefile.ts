/** A file of steps before it runs, in lines. */
import type { IPipelineFile, IStepOfFile } from '../server/pipelines';
import { bytes } from '../text/format';
import { visible } from '../text/visible';
import type { PipelineMessages } from './messages';

/** What is named of what stays behind; the rest is counted. */
const NAMED = 3;

export interface IStepLine {
  /** `train × 2`. */
  name: string;
  /** Of each of its roles. */
  runs: readonly string[];
  /** What it waits for, and what it reads. */
  needs: string;
  /** What it runs with, and where its results come to. */
  uses: string;
}

export function stepLine(step: IStepOfFile, msg: PipelineMessages): IStepLine {
  const { name, runs, copies, after, inputs } = step;
  const reads = new Set(inputs.map(each => each.split('/')[0]));
  const waits = Object.entries(after)
    .filter(([step, how]) => how !== 'ok' || !reads.has(step))
    .map(([step, how]) => msg.afterStep(step, how));
  return {
    name: copies > 1 ? `${name} × ${copies}` : name,
    runs: runs.map(visible),
    needs: [
      ...(waits.length > 0 ? [msg.after(waits)] : []),
      ...(inputs.length > 0 ? [msg.reads(inputs.map(visible))] : [])
    ].join(' · '),
    uses: visible(
      [
        ...(step.environment !== '' ? [msg.runsWith(step.environment)] : []),
        ...(step.secrets.length > 0 ? [msg.isTold(step.secrets)] : []),
        ...(step.variables.length > 0 ? [msg.sets(step.variables)] : []),
        ...(step.links.length > 0 ? [msg.linksTo(step.links)] : []),
        ...(step.results_to ? [msg.resultsTo(step.results_to)] : []),
        ...(step.others.length > 0 ? [msg.alsoSays(step.others)] : [])
      ].join(' · ')
    )
  };
}

/** A folder that goes along, and what of it does not. */
export function folderLines(
  { folders }: IPipelineFile,
  msg: PipelineMessages
): string[] {
  return folders.flatMap(each => {
    // What a step may miss first: a home folder has many hidden ones.
    const left = [
      ...each.excluded.filter(one => one.linkable),
      ...each.excluded.filter(one => !one.linkable)
    ].map(one => `${visible(one.path)} ${one.reason}`);
    const shown = left.slice(0, NAMED).join(', ');
    const more = left.length - NAMED;
    const isMissed = each.excluded.some(one => one.linkable);
    return [
      msg.takesAlong(visible(each.folder), each.files, bytes(each.size_bytes)),
      ...(left.length > 0 ? [msg.staysHere(shown, more)] : []),
      ...(isMissed ? [msg.leftOut(each.linked)] : [])
    ];
  });
}

/** Whose team has to be chosen: the file names none, and there are several. */
export function teamsToChoose(
  { team }: IPipelineFile,
  teams: readonly string[]
): readonly string[] {
  return team === null && teams.length > 1 ? teams : [];
}
