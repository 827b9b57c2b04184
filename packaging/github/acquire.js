// The main step of the action: installs dlock and acquires the lock.
'use strict';
const fs = require('fs');
const path = require('path');
const { annotate, input, login, pass, run } = require('./runner');

// Returns the program, of the release that belongs to this version of the action unless another one
// is named.
async function installed() {
  if (input('release') === 'installed') return 'dlock';
  const { GITHUB_SERVER_URL, GITHUB_ACTION_REPOSITORY, GITHUB_ACTION_REF, RUNNER_TEMP } = process.env;
  if (!input('release') && !GITHUB_ACTION_REPOSITORY) {
    throw new Error('the input `release` is needed for an action that is used by its path');
  }
  const release = input('release') ||
    `${GITHUB_SERVER_URL}/${GITHUB_ACTION_REPOSITORY}/releases/download/${GITHUB_ACTION_REF}`;
  const prefix = path.join(RUNNER_TEMP, 'dlock');
  fs.mkdirSync(prefix, { recursive: true });
  const sum = input('sha256') ? ['--sha256', input('sha256')] : [];
  const script = path.join(__dirname, '..', '..', 'get.sh');
  const { code, errors } = await run('sh', [script, '--prefix', prefix, ...sum, release]);
  if (code !== 0) throw new Error(errors || `cannot install dlock from ${release}`);
  pass('PATH', '', path.join(prefix, 'bin'));
  return path.join(prefix, 'bin', 'dlock');
}

// The process that lives as long as the job: the worker that starts the steps, or in a container,
// whose processes come from outside, its first process.
const job = () => process.ppid || 1;

function acquireArguments() {
  const options = ['acquire', '--json', '--for-pid', String(job())];
  for (const name of ['store', 'wait', 'slots', 'ttl', 'label']) {
    if (input(name)) options.push(`--${name}`, input(name));
  }
  return [...options, '--', input('name')];
}

async function main() {
  const dlock = await installed();
  const { code, output, errors } = await run(dlock, acquireArguments(), login());
  pass('OUTPUT', 'acquired', code === 0 ? 'true' : 'false');
  if (code === 75 && input('required') === 'false') return annotate('notice', errors);
  if (code !== 0) throw new Error(errors || `dlock acquire exited with ${code}`);
  const { token, fence, slot } = JSON.parse(output);
  console.log(`::add-mask::${token}`);
  pass('STATE', 'token', token);
  pass('STATE', 'program', dlock);
  pass('OUTPUT', 'fence', fence);
  pass('OUTPUT', 'slot', slot);
  // So that `dlock check` works in later steps.
  pass('ENV', 'DLOCK_NAME', input('name'));
  pass('ENV', 'DLOCK_FENCE', fence);
  pass('ENV', 'DLOCK_SLOT', slot);
  const hasPassword = /\/\/[^/@]*:[^/@]*@/.test(input('store'));
  if (input('store') && !hasPassword) pass('ENV', 'DLOCK_STORE', input('store'));
}

main().catch((error) => {
  annotate('error', error.message);
  process.exitCode = 1;
});
