// The last step of the action, also of a job that failed or was cancelled: releases the lock, if the
// main step has acquired it.
'use strict';
const { annotate, input, login, run } = require('./runner');

async function main() {
  const { STATE_token: token, STATE_program: program } = process.env;
  if (!token) return;
  const store = input('store') ? ['--store', input('store')] : [];
  const variables = { ...login(), DLOCK_TOKEN: token };
  const { code, errors } = await run(program, ['release', ...store, '--', input('name')], variables);
  if (code === 0) return;
  if (code === 69) return annotate('warning', `${errors}; the lock is free after its ttl`);
  throw new Error(errors);
}

main().catch((error) => {
  annotate('error', error.message);
  process.exitCode = 1;
});
