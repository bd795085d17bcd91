/** The sign of Theseus: a ship. */

import { LabIcon } from '@jupyterlab/ui-components';

// As a text, so that the same file serves a browser and node. The class takes the theme's colour.
const SHIP = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16" height="16">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M7.2 1.5 13 9.2H7.2z"/><path d="M6.2 4.4v4.8H2.8z"/><path d="M1.6 10.6h12.8l-1.9 3.4H3.5z"/>
  </g>
</svg>`;

export const icon = new LabIcon({ name: 'theseus:ship', svgstr: SHIP });
