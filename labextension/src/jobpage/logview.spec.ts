import { describe, expect, it } from 'vitest';

import { LogBuffer } from '../log';
import { syncLines } from './logview';
import { leadOf } from '../trainform/form';

function texts(node: HTMLElement): string[] {
  return Array.from(node.children, row => row.textContent ?? '');
}

describe('rows of the log', () => {
  it('follow the buffer at both ends and keep the rows in between', () => {
    const log = new LogBuffer(3);
    const node = document.createElement('pre');
    log.append(1, ['a', 'b'], false, () => 'attempt 1');
    syncLines(node, log.lines);
    const kept = node.lastElementChild;
    log.append(1, ['c'], false, () => '');
    syncLines(node, log.lines);

    expect(texts(node)).toEqual(['a', 'b', 'c']);
    expect(node.children[1]).toBe(kept);
  });

  it('are text, whatever a job prints', () => {
    const log = new LogBuffer();
    const node = document.createElement('pre');
    log.append(1, ['<img src=x onerror=alert(1)>'], false, () => 'attempt 1');
    syncLines(node, log.lines);

    expect(node.querySelector('img')).toBeNull();
    expect(texts(node)[1]).toBe('<img src=x onerror=alert(1)>');
  });

  it('are emptied with the buffer', () => {
    const log = new LogBuffer();
    const node = document.createElement('pre');
    log.append(1, ['a'], false, () => 'attempt 1');
    syncLines(node, log.lines);
    log.clear();
    syncLines(node, log.lines);

    expect(node.children).toHaveLength(0);
  });
});

describe('the quota line', () => {
  it('sets a short verdict apart', () => {
    expect(leadOf('Borrowed. All are in use.')).toEqual([
      'Borrowed.',
      'All are in use.'
    ]);
    expect(leadOf('This is guaranteed and starts at once.')).toEqual([
      '',
      'This is guaranteed and starts at once.'
    ]);
  });
});
