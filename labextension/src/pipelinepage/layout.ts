/** Where the steps of a graph stand, and which lines lead from one to another. Pure. */
import type { IStep } from '../server/pipelines';
import { visible } from '../text/visible';

export const STEP_WIDTH = 208;
export const STEP_HEIGHT = 78;
const GAP_X = 118;
const GAP_Y = 20;
const WORDS_HEIGHT = 18;
/** Where on a line its words may stand, best first: in the middle, else nearer to one end. */
const ALONG = [0.5, 0.7, 0.3, 0.85, 0.15];

export interface IPlaced {
  step: IStep;
  x: number;
  y: number;
}

export interface IEdge {
  from: string;
  to: string;
  /** An SVG path between the two. */
  path: string;
  /** What is read, by name; empty where one only waits for the other. */
  labels: string[];
  /** Where its words stand. */
  x: number;
  y: number;
  /** What it stands for has come about. */
  isThere: boolean;
}

export interface ILayout {
  steps: IPlaced[];
  edges: IEdge[];
  width: number;
  height: number;
}

/** Columns by depth: a step stands right of all that it needs; each column is centred. */
export function layout(steps: readonly IStep[]): ILayout {
  const depth = new Map<string, number>();
  const columns: IStep[][] = [];
  for (const step of steps) {
    const before = Object.keys(step.after).map(name => depth.get(name) ?? -1);
    const column = Math.max(-1, ...before) + 1;
    depth.set(step.name, column);
    (columns[column] ??= []).push(step);
  }
  const tallest = Math.max(0, ...columns.map(each => each.length));
  const height = Math.max(0, tallest * (STEP_HEIGHT + GAP_Y) - GAP_Y);
  const placed = new Map<string, IPlaced>();
  columns.forEach((column, number) => {
    const own = column.length * (STEP_HEIGHT + GAP_Y) - GAP_Y;
    column.forEach((step, row) => {
      placed.set(step.name, {
        step,
        x: number * (STEP_WIDTH + GAP_X),
        y: (height - own) / 2 + row * (STEP_HEIGHT + GAP_Y)
      });
    });
  });
  const edges: IEdge[] = [];
  for (const step of steps) {
    for (const [name, needs] of Object.entries(step.after)) {
      const from = placed.get(name);
      const to = placed.get(step.name);
      if (from && to) {
        edges.push(edge(from, to, needs, edges));
      }
    }
  }
  return {
    steps: [...placed.values()],
    edges,
    width: Math.max(0, columns.length * (STEP_WIDTH + GAP_X) - GAP_X),
    height
  };
}

function edge(
  from: IPlaced,
  to: IPlaced,
  needs: string,
  others: readonly IEdge[]
): IEdge {
  const startX = from.x + STEP_WIDTH;
  const startY = from.y + STEP_HEIGHT / 2;
  const endY = to.y + STEP_HEIGHT / 2;
  const middle = (startX + to.x) / 2;
  const read = to.step.inputs.filter(each => each.step === from.step.name);
  const condition = needs === 'ok' ? [] : [needs];
  return {
    from: from.step.name,
    to: to.step.name,
    path: `M${startX} ${startY}C${middle} ${startY} ${middle} ${endY} ${to.x} ${endY}`,
    labels: [...read.map(each => visible(each.path)), ...condition],
    ...free([startX, startY], [to.x, endY], others),
    isThere: from.step.state === 'succeeded'
  };
}

/** A place for the words of a line from one point to another, apart from the words of others. */
function free(
  [startX, startY]: [number, number],
  [endX, endY]: [number, number],
  others: readonly IEdge[]
): { x: number; y: number } {
  const places = ALONG.map(t => ({
    x: startX + (endX - startX) * bezier(t, 0.5),
    y: startY + (endY - startY) * bezier(t, 0)
  }));
  const isFree = ({ x, y }: { x: number; y: number }) =>
    others.every(
      other =>
        other.labels.length === 0 ||
        Math.abs(other.x - x) >= GAP_X ||
        Math.abs(other.y - y) >= WORDS_HEIGHT
    );
  return places.find(isFree) ?? places[0] ?? { x: startX, y: startY };
}

/** How far along a line is at t, whose control points lie at `control` and at 1 - `control`. */
function bezier(t: number, control: number): number {
  const first = 3 * (1 - t) ** 2 * t * control;
  return first + 3 * (1 - t) * t ** 2 * (1 - control) + t ** 3;
}
