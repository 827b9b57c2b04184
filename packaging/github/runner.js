// What the two steps of the action have in common: how a runner passes values, and how dlock is run.
'use strict';
const { spawn } = require('child_process');
const { createHash, randomUUID } = require('crypto');
const fs = require('fs');
const path = require('path');

// An input of the action; empty if it is not set.
const input = (name) => (process.env[`INPUT_${name.toUpperCase()}`] || '').trim();

// Adds a value to one of the files that the runner reads: OUTPUT, STATE, ENV or PATH.
function pass(file, name, value) {
  const end = randomUUID(); // a line that the value cannot have
  const text = name ? `${name}<<${end}\n${value}\n${end}\n` : `${value}\n`;
  fs.appendFileSync(process.env[`GITHUB_${file}`], text);
}

// An input that is true or false, as YAML has it.
function flag(name) {
  const value = input(name) || 'true';
  if (!/^(true|True|TRUE|false|False|FALSE)$/.test(value)) {
    throw new Error(`the input \`${name}\` must be true or false, not '${value}'`);
  }
  return /^t/i.test(value);
}

// Prints a message that the page of the run shows: `error` or `warning`.
function annotate(level, message) {
  const text = harmless(message).replace(/%/g, '%25').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
  console.log(`::${level}::${text}`);
}

// A text without what the runner takes for a command: others can write a part of it into their locks.
const harmless = (text) => text.replace(/##\[/g, '## [').replace(/^(\s*)::/gm, '$1: :');

// What a job that was cancelled throws.
class Cancelled extends Error {}

// Runs a program without a shell. Returns its exit code and its output. A cancelled job passes its signals on
// to the program and what that has started, so that a waiter leaves the queue and a download ends; if the
// program does not succeed then, throws Cancelled.
function run(program, args, environment = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      detached: true,
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    let errors = '';
    let cancelled = false;
    child.stdout.on('data', (data) => { output += data; });
    child.stderr.on('data', (data) => { errors += data; process.stderr.write(harmless(String(data))); });
    const stop = (signal) => {
      cancelled = true;
      try { process.kill(-child.pid, signal); } catch { /* it has ended */ }
    };
    process.on('SIGINT', stop).on('SIGTERM', stop);
    const finish = (code) => {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      if (cancelled && code !== 0) reject(new Cancelled(errors));
      else resolve({ code, output: output.trim(), errors: errors.trim() });
    };
    child.on('error', (error) => { errors += error.message; finish(127); });
    child.on('close', (code) => finish(code === null ? 130 : code));
  });
}

const store = () => (input('store') ? ['--store', input('store')] : []);

// The login. A user whom another use of the action in this job has named is not for this one.
function login() {
  const variables = {};
  const { DLOCK_USER, LOCK_ACTION_USER } = process.env;
  if (input('store') && DLOCK_USER === LOCK_ACTION_USER) variables.DLOCK_USER = undefined;
  if (input('user')) variables.DLOCK_USER = input('user');
  if (input('password')) variables.DLOCK_PASSWORD = input('password');
  return variables;
}

const digest = (data) => createHash('sha256').update(data).digest('hex');
const sumOf = (file) => digest(fs.readFileSync(file));

// Where a release is installed: not where another use of the action in this job installs another one.
const prefix = () => path.join(process.env.RUNNER_TEMP, 'dlock', digest(`${input('release')} ${input('sha256')}`).slice(0, 12));

// The paths of dlock as the inputs name it, the first one first.
function programs() {
  const directories = input('release') === 'installed' ? process.env.PATH.split(':') : [path.join(prefix(), 'bin')];
  return directories.map((directory) => path.join(directory, 'dlock'))
    .filter((file) => path.isAbsolute(file) && fs.existsSync(file) && fs.statSync(file).isFile());
}

// Runs a step, and tells the runner how it failed.
function finish(step, effect) {
  step().catch((error) => {
    if (error instanceof Cancelled) annotate('notice', `cancelled: ${effect}`);
    else annotate('error', error.message);
    process.exitCode = 1;
  });
}

module.exports = { annotate, finish, flag, input, login, pass, prefix, programs, run, store, sumOf };
