/** A run of a cell whose outputs no page may have shown. */
export interface ICellRun {
  /** Of the request. */
  id: string;
  cell_id: string;
  code: string;
  /** The page that ran it. */
  session: string;
  /** Something of it came while that page was away, and was not given to it since. */
  is_unseen: boolean;
  /** `ended`: its kernel was gone before it was done. */
  state: 'running' | 'done' | 'ended';
  execution_count: number | null;
  messages: IHeard[];
  /** Of messages that are in it already. */
  recent: string[];
}

/** What a kernel said to all. */
export interface IHeard {
  header: { msg_type: string };
  content: unknown;
  metadata: unknown;
}
