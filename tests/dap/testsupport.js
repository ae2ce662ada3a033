// SPDX-License-Identifier: MIT
// testsupport.js TRAPLINE PID SOURCE LINE: the client of @vscode/debugadapter-testsupport attaches, sets
// breakpoints and reads their lines. Prints what failed, or "passed".
const { spawn } = require('child_process');
const { DebugClient } = require('@vscode/debugadapter-testsupport');
const [trapline, pid, source, line] = process.argv.slice(2);

function need(holds, what) {
  if (!holds) throw new Error(what);
}

async function main() {
  const client = new DebugClient('node', '', 'trapline');
  const lines = [];
  let stopped = 0;
  let arrived;
  const all = new Promise((resolve) => { arrived = resolve; });
  client.on('stopped', () => { stopped += 1; });
  client.on('output', (event) => {
    lines.push(event.body);
    const has = (text) => lines.some((body) => body.output.includes(text));
    if (has('color RED') && has('lookup(')) arrived();
  });
  // Its own start() needs a port, or an adapter that node runs.
  const adapter = spawn(trapline, ['dap']);
  client.connect(adapter.stdout, adapter.stdin);
  await client.initializeRequest();
  const initialized = client.waitForEvent('initialized', 60000);
  await client.attachRequest({ pid: Number(pid) });
  await initialized;
  const set = await client.setBreakpointsRequest({
    source: { path: source },
    breakpoints: [{ line: Number(line), logMessage: 'color {c}', condition: 'c == RED' }, { line: 99999 }],
  });
  need(set.body.breakpoints[0].verified, 'a logpoint is not verified');
  need(!set.body.breakpoints[1].verified && set.body.breakpoints[1].message, 'a line that is not there is verified');
  const functions = await client.setFunctionBreakpointsRequest({ breakpoints: [{ name: 'lookup' }] });
  need(functions.body.breakpoints[0].verified, 'a function is not verified');
  await client.configurationDoneRequest();
  await all;
  const threads = await client.threadsRequest();
  need(threads.body.threads.length === 2, 'there are two threads');
  const logged = lines.find((body) => body.output.includes('color RED'));
  need(logged.source.path === source && logged.line > 0, 'a line leads nowhere');
  const info = await client.send('dataBreakpointInfo', { name: 'rounds_done' });
  need(info.body.dataId === 'rounds_done', 'a variable has no dataId');
  const data = await client.send('setDataBreakpoints', { breakpoints: [{ dataId: 'rounds_done', accessType: 'write' }] });
  const row = data.body.breakpoints[0];
  // The registers of some machines do not fire.
  need(row.verified || /debug register/.test(row.message), 'a data breakpoint is refused without a cause');
  if (row.verified) {
    await new Promise((resolve) => {
      client.on('output', (event) => { if (/^rounds_done: .* -> /.test(event.body.output)) resolve(); });
    });
  }
  await client.pauseRequest({ threadId: Number(pid) }).then(
    () => need(false, 'pause is not refused'),
    (error) => need(/never stops/.test(error.message), `pause: ${error.message}`));
  await client.disconnectRequest();
  need(stopped === 0, 'a stopped event came');
  console.log('passed');
  process.exit(0);
}

main().catch((error) => { console.log(error.message); process.exit(1); });
