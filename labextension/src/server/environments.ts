/** What jobs may run with, as the server lists it. */
export interface IEnvironments {
  kind: 'folder' | 'image';
  /** The image of this notebook, which its jobs run in by default. */
  default?: string;
  environments: { environment: string; name: string; python: string }[];
}
