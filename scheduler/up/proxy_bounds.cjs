// Loaded into the hub's proxy before it starts: connections on which nothing is asked are bounded.
//
// The proxy itself takes as many as it has descriptors, and keeps one without a request for a
// minute and more. Here the oldest makes room for a new one, as at the doors of the scheduler.
'use strict';

const { subscribe } = require('node:diagnostics_channel');
const http = require('node:http');

// Without a whole head, or between two requests.
const MOST_QUIET = 1024;
// Whose body is on its way.
const MOST_SENDING = 1024;
const HEAD_MS = 10_000;
const SWEEP_MS = 1000;

// Socket → since when, oldest first.
const quiet = new Map();
const sending = new Map();
const servers = new WeakSet();

function leave(crowd, socket) {
  crowd.delete(socket);
}

function join(crowd, most, socket) {
  if (crowd.size >= most) {
    const [oldest] = crowd.keys();
    crowd.delete(oldest);
    oldest.destroy();
  }
  crowd.set(socket, Date.now());
}

function onRequest(request, response) {
  const socket = request.socket;
  leave(quiet, socket);
  const hasBody =
    'transfer-encoding' in request.headers ||
    Number(request.headers['content-length'] || 0) > 0;
  if (hasBody) {
    join(sending, MOST_SENDING, socket);
    request.once('end', () => leave(sending, socket));
  }
  response.once('finish', () => {
    if (!socket.destroyed) {
      join(quiet, MOST_QUIET, socket);
    }
  });
}

function attend(server) {
  servers.add(server);
  server.prependListener('request', onRequest);
  // Only where somebody answers them already: a listener alone would make a server keep them.
  if (server.listenerCount('upgrade') > 0) {
    server.prependListener('upgrade', request => leave(quiet, request.socket));
  }
}

subscribe('net.server.socket', ({ socket }) => {
  const server = socket.server;
  if (!(server instanceof http.Server)) {
    return;
  }
  if (!servers.has(server)) {
    attend(server);
  }
  join(quiet, MOST_QUIET, socket);
  socket.once('close', () => {
    leave(quiet, socket);
    leave(sending, socket);
  });
});

setInterval(() => {
  const before = Date.now() - HEAD_MS;
  for (const [socket, since] of quiet) {
    if (since > before) {
      break;
    }
    quiet.delete(socket);
    socket.destroy();
  }
}, SWEEP_MS).unref();
