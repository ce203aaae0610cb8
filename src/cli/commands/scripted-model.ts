import { readFileSync } from 'node:fs'
import { EbbError, errno } from '../../core/model/errors.ts'
import { type ModelRequest, type Script, type ScriptedModel, startScriptedModel } from '../../scripted-model/index.ts'
import type { Arguments } from '../arguments.ts'
import type { CommandDefinition, Wiring } from '../command.ts'
import { leaveSignals } from '../exit/leaving.ts'
import { type Output, openOutput } from '../output.ts'
import { cut } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'scripted-model',
  summary: 'run a model that follows a script, for tests with real agents: no key, no tokens, no network',
  usage: 'ebb scripted-model [--script FILE] [--model-port N] [--while-stdin] [--json]',
  examples: [
    'ebb scripted-model',
    'ebb scripted-model --script hello.json --model-port 4410',
    'ebb scripted-model --json > requests.jsonl',
  ],
  options: ['home', 'logLevel', 'script', 'modelPort', 'whileStdin'],
  switches: ['json', 'help'],
  leavesInTime: true,
  run,
}

/** Runs the model of the testing kit as a program, for tests in any language. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
  const leaving = leaveSignals(wiring.inherited.ignored)
  if (config.whileStdin) leaving.leaveWithStdin()
  const output = droppingOutput()
  const show = args.switches.has('json') ? jsonLine : line
  const script = config.script === undefined ? {} : readScript(config.script)
  await using model = await start(script, config.modelPort, (request) => show(request, output))
  announce(model, args.switches.has('json'), output)
  await leaving.requested
  return 0
}

type TextOutput = Pick<Output, 'out' | 'err'>

/** Drops lines that are not read: agents depend on the model, so a reader that is slow or gone must not stop it. */
function droppingOutput(): TextOutput {
  let isClosed = false
  const { out, err } = openOutput(() => {
    isClosed = true
  })
  const outWhileRead = (text: string): void => {
    if (!isClosed && !process.stdout.writableNeedDrain) out(text)
  }
  return { out: outWhileRead, err }
}

function readScript(file: string): Script {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Script
  } catch (error) {
    const why = errno(error) === 'ENOENT' ? 'there is no such file' : (error as Error).message
    throw new EbbError('bad_usage', `The script ${JSON.stringify(file)} cannot be read: ${why}.`)
  }
}

async function start(script: Script, port: number, onRequest: (request: ModelRequest) => void): Promise<ScriptedModel> {
  try {
    return await startScriptedModel({ script, port, onRequest })
  } catch (error) {
    if (errno(error) === 'EADDRINUSE')
      throw new EbbError('bad_usage', `Port ${port} is taken; give another --model-port, or 0 for a free one.`)
    throw new EbbError('bad_usage', (error as Error).message)
  }
}

function announce({ url }: ScriptedModel, isJson: boolean, { out }: TextOutput): void {
  if (isJson) out(`${JSON.stringify({ url, pid: process.pid })}\n`)
  else
    out(
      `The scripted model answers on ${url} until Ctrl-C. For example:\n  ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY=scripted claude -p hello\n`,
    )
}

/** Writes one line for each request, after its answer. */
function line({ state, api, rule, turn, prompt, isAside }: ModelRequest, { out }: TextOutput): void {
  if (state === 'open') return
  const by = isAside ? 'aside' : rule < 0 ? 'no rule' : `rule ${rule}, turn ${turn}`
  out(`${state.padEnd(8)} ${api.padEnd(18)} ${by.padEnd(15)} ${cut(prompt.replaceAll(/\s+/g, ' '), 80)}\n`)
}

function jsonLine({ body: _body, ...request }: ModelRequest, { out }: TextOutput): void {
  out(`${JSON.stringify(request)}\n`)
}
