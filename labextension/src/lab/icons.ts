/** Our one icon: a card with a fan, half of it filled, as half a GPU is. */
import { LabIcon } from '@jupyterlab/ui-components';

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><g class="jp-icon3 jp-icon-selectable" fill="#616161"><path fill-rule="evenodd" d="M2 4h2v1h17l1 1v10l-1 1h-2v2h-2v-2h-2v2h-2v-2h-2v2H9v-2H4v4H2zm2 3v8h16V7zm8 .2a3.8 3.8 0 1 1 0 7.6 3.8 3.8 0 0 1 0-7.6zm0 1.2a2.6 2.6 0 1 0 0 5.2z"/></g></svg>`;

export const gpuIcon = new LabIcon({ name: 'gpucommons:gpu', svgstr: SVG });
