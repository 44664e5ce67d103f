/** What one is told by mail and webhook, as the server shows it. */
import type { Api } from '../server/api';

/** One way to be told. */
export interface IChannel {
  /** `idle`, `start`, `preempt`, `finish`, `week`. */
  about: string[];
  to: string;
  /** Why it cannot be chosen here. */
  why_not: string;
  /** Why nothing comes there yet. */
  waits?: string;
}

export interface IMessage {
  id: string;
  /** `mail` or `webhook`. */
  channel: string;
  subject: string;
  made_ms: number;
  /** `waiting`, `sent`, `failed`, `dropped`. */
  fate: string;
  said: string;
}

export interface INotifications {
  mail: IChannel;
  webhook: IChannel;
  /** Newest first. */
  newest: IMessage[];
  /** Where it is chosen. */
  page_url?: string;
}

export function notificationsOf(api: Api): Promise<INotifications> {
  return api.request('GET', ['api', 'notifications']);
}
