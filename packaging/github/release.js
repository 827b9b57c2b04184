// The last step of the action, even of a job that failed or was cancelled: releases the lock, if
// the main step has acquired it.
'use strict';
const { annotate, finish, input, login, programs, run, store, sumOf } = require('./runner');

async function main() {
  const { STATE_token: token, STATE_program: sum, STATE_settings: settings } = process.env;
  if (!token) return;
  // Not a path that a state or a later step names.
  const dlock = programs().find((program) => sumOf(program) === sum);
  if (!dlock) {
    throw new Error('the dlock that acquired the lock has been changed or removed, so it was not run; ' +
      'the lock is free soon after the job');
  }
  const variables = { ...JSON.parse(settings || '{}'), ...login(), DLOCK_TOKEN: token };
  const { code, errors } = await run(dlock, ['release', ...store(), '--', input('name')], variables);
  if (code === 0) return;
  if (code === 69) return annotate('warning', `${errors}; the lock is free after its ttl`);
  throw new Error(errors);
}

finish(main, 'the lock is free soon after the job');
