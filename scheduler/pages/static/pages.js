// Entry of every page: each module takes what it knows and leaves the rest.
import { showTimes, startAge } from './times.js';
import { startLive } from './live.js';
import { startQuotas } from './quotas.js';
import { startReclaim } from './reclaim.js';
import { startTicket } from './ticket.js';

showTimes(document);
startAge();
startLive();
startQuotas();
startReclaim();
startTicket();
