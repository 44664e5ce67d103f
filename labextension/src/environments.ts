/** What jobs may run with, as the server lists it. */
export interface IEnvironments {
  kind: 'folder' | 'image';
  environments: { environment: string; name: string; python: string }[];
}
