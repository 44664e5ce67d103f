/** Our one icon: a card with a fan, half of it filled, as half a GPU is. */
import { LabIcon } from '@jupyterlab/ui-components';

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M2 4h2v1h17a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-2v2h-2v-2h-2v2h-2v-2h-2v2H9v-2H4v4H2zm2 3v8h16V7z" fill-rule="evenodd"/>
    <path d="M12 7.8a3.2 3.2 0 0 1 0 6.4z"/>
    <path d="M12 7.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6zm0 1.2a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2z" fill-rule="evenodd"/>
  </g>
</svg>`;

export const gpuIcon = new LabIcon({ name: 'gpucommons:gpu', svgstr: SVG });
