/** What JSX becomes. A short name of our own: it is the most frequent word of the bundle. */
import * as React from 'react';

export const h = React.createElement;
export const Fragment = React.Fragment;
