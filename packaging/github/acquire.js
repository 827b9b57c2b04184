// The main step of the action: installs dlock and acquires the lock.
'use strict';
const fs = require('fs');
const path = require('path');
const { annotate, finish, flag, input, login, pass, prefix, programs, run, store, sumOf } = require('./runner');

// Installs the release that belongs to this version of the action unless another one is named.
async function install() {
  if (input('release') === 'installed') return;
  const { GITHUB_SERVER_URL, GITHUB_ACTION_REPOSITORY, GITHUB_ACTION_REF } = process.env;
  if (!input('release') && !GITHUB_ACTION_REPOSITORY) {
    throw new Error('the input `release` is needed for an action that is used by its path');
  }
  // The ref can be a commit, a branch, or a tag that moves.
  const source = path.join(__dirname, '..', '..');
  const [, version] = /^project\(dlock VERSION (\S+)/m.exec(fs.readFileSync(path.join(source, 'CMakeLists.txt'), 'utf8'));
  const release = input('release') ||
    `${GITHUB_SERVER_URL}/${GITHUB_ACTION_REPOSITORY}/releases/download/v${version}`;
  fs.mkdirSync(prefix(), { recursive: true });
  const sum = input('sha256') ? ['--sha256', input('sha256')] : [];
  const { code, errors } = await run('sh', [path.join(source, 'get.sh'), '--prefix', prefix(), ...sum, release]);
  if (code !== 0) {
    const hint = input('release') ? '' : `; ${GITHUB_ACTION_REF} of the action is version ${version}: ` +
      'if that has not been released, use the tag of a release or its commit, or the input `release`';
    throw new Error((errors || `cannot install dlock from ${release}`) + hint);
  }
  pass('PATH', '', path.join(prefix(), 'bin'));
}

// The process that lives as long as the job: the worker that starts the steps, or in a container,
// whose processes come from outside, its first process.
const job = () => process.ppid || 1;

function acquireArguments() {
  const options = ['acquire', '--json', '--for-pid', String(job())];
  for (const name of ['wait', 'slots', 'ttl', 'label']) {
    if (input(name)) options.push(`--${name}`, input(name));
  }
  return [...options, ...store(), '--', input('name')];
}

// Whether a URL may have a password. A name alone is one for Redis.
const hasPassword = (url) => /:\/\/.*:.*@|^(redis|valkey)\S*:\/\/.*@|password=/i.test(url);

// The variables with which later steps use the same store: none has a secret, because the runner
// shows them. dlock itself prints no secrets of its settings.
async function settings(dlock) {
  const { code, output, errors } = await run(dlock, ['config', '--quiet', '--json', ...store()], login());
  if (code !== 0) throw new Error(errors);
  const variables = {};
  for (const { setting, value, origin } of JSON.parse(output).settings) {
    const variable = `DLOCK_${setting.toUpperCase().replace(/-/g, '_')}`;
    if (value !== '***' && (origin === variable || origin === '--store')) variables[variable] = value;
  }
  if (!input('store') && hasPassword(process.env.DLOCK_STORE)) {
    // Without its password it would hide that of the job from later steps.
    delete variables.DLOCK_STORE;
    annotate('notice', 'DLOCK_STORE has a password and is not passed on: for `dlock check` in later steps, set it in ' +
      '`env` of the job');
  }
  const [all, scheme, user] = /^([a-z+]+:\/\/)([^@/?]*)@/.exec(variables.DLOCK_STORE) || [];
  if (user && !variables.DLOCK_USER) {
    variables.DLOCK_USER = decodeURIComponent(user);
    variables.DLOCK_STORE = variables.DLOCK_STORE.replace(all, scheme);
  }
  return variables;
}

async function main() {
  const required = flag('required');
  await install();
  const [dlock] = programs();
  if (!dlock) throw new Error('there is no dlock in PATH');
  const { code, output, errors } = await run(dlock, acquireArguments(), login());
  pass('OUTPUT', 'acquired', code === 0 ? 'true' : 'false');
  if (code === 75 && !required) return annotate('notice', errors);
  if (code !== 0) throw new Error(errors || `dlock acquire exited with ${code}`);
  const { token, fence, slot } = JSON.parse(output);
  console.log(`::add-mask::${token}`);
  pass('STATE', 'token', token);
  pass('STATE', 'program', sumOf(dlock));
  pass('OUTPUT', 'fence', fence);
  pass('OUTPUT', 'slot', slot);
  // For `dlock check` in later steps, and for the last one, whatever these add.
  const variables = await settings(dlock);
  pass('STATE', 'settings', JSON.stringify(variables));
  Object.assign(variables, { DLOCK_NAME: input('name'), DLOCK_FENCE: fence, DLOCK_SLOT: slot });
  const { DLOCK_USER: before = '' } = process.env;
  if ((variables.DLOCK_USER || '') !== before) variables.LOCK_ACTION_USER = variables.DLOCK_USER ||= '';
  for (const [name, value] of Object.entries(variables)) pass('ENV', name, value);
}

finish(main, 'the lock was not acquired');
