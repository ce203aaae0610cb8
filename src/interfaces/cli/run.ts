import type { Config } from '../../config/config.ts'
import type { Agent } from '../../domain/agent.ts'
import { EbbError, isEbbError, sentence } from '../../domain/errors.ts'
import type { Message } from '../../domain/message.ts'
import type { Report } from '../../domain/report.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { findServer } from './client.ts'
import { notReleased } from './each-agent.ts'
import { workingDirectory } from './exec.ts'
import { follow } from './follow.ts'
import { configOf } from './open.ts'
import { openOutput } from './output.ts'
import { messagePrinter } from './render.ts'
import { catchSignals } from './signals.ts'
import { type LaunchBody, type Stage, serverStage, settingsOf } from './stage.ts'

/** `ebb run PROVIDER PROMPT…`: one agent in the foreground, on the running server or on an engine of our own. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const wanted = await readWords(args)
  const signals = catchSignals()
  const server = await findServer(config)
  const folder = server && !server.isLocal ? undefined : workingDirectory()
  const { configuration, ...settings } = settingsOf(config, folder)
  const body: LaunchBody = { ...settings, ...wanted, configuration: { ...configuration, ...wanted.configuration } }
  const stage = server ? serverStage(server) : await (await import('./own-stage.ts')).openOwnStage(config, wiring)
  const isJson = args.switches.has('json')
  const code = await perform(stage, body, config, signals, isJson).catch(async (error: unknown) => {
    await stage.leave(true)
    throw error
  })
  return (await stage.leave(code !== 3)) ? code : 3
}

type Wanted = Pick<LaunchBody, 'type' | 'prompt' | 'configuration'>

/** For `command`, what stands after `--` is the command, and the words before it are its standard input. */
async function readWords({ words, rest }: Arguments): Promise<Wanted> {
  const [type = '', ...prompt] = words.length > 0 ? words : rest
  const after = words.length > 0 ? rest : []
  if (type !== 'command') return { type, prompt: await promptOf([...prompt, ...after], type), configuration: {} }
  const command = words.length > 0 ? rest : prompt
  if (command.length === 0)
    throw new EbbError('bad_usage', '"ebb run command" needs a COMMAND after "--", as in: ebb run command -- npm test')
  return { type, prompt: words.length > 0 && prompt.length > 0 ? await promptOf(prompt, type) : '', configuration: { command } }
}

/** A single `-` is what comes on standard input. */
async function promptOf(words: readonly string[], type: string): Promise<string> {
  if (words.length === 0)
    throw new EbbError(
      'bad_usage',
      `"ebb run" needs a PROMPT, as in: ebb run ${type} "Fix the flaky test"; "-" reads it from standard input.`,
    )
  if (words.length > 1 || words[0] !== '-') return words.join(' ')
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

async function perform(
  stage: Stage,
  body: LaunchBody,
  config: Config,
  signals: ReturnType<typeof catchSignals>,
  isJson: boolean,
): Promise<number> {
  const id = await stage.launch(body)
  let asked = 0
  const leave = (): void => {
    asked += 1
    if (asked === 1) output.err('ebb: stopping the agent; once more forces it.\n')
    stage.stop(id, { force: asked > 1, graceMs: config.grace }).catch((error: unknown) => {
      if (!isEbbError(error, 'agent_not_found')) output.err(`ebb: the agent could not be stopped: ${sentence(error)}\n`)
    })
  }
  const output = openOutput(() => asked === 0 && leave())
  signals.listen((_signal, meansLeave) => meansLeave && leave())
  try {
    const print = messagePrinter(output, isJson)
    // Who runs it has just written the prompt.
    let agent = await follow(stage, id, (messages) => print(isJson ? messages : messages.filter(isNoPrompt)))
    if (!config.keep) await stage.remove(id).catch(unlessGone)
    else if (agent?.status === 'stuck') agent = await tryAgain(stage, id, config)
    return verdict(agent, id, config.keep, output.err)
  } catch (error) {
    if (!isEbbError(error, 'not_released')) {
      // Whatever went wrong here, the agent does not outlive it.
      await stage.remove(id).catch(() => {})
      throw error
    }
    output.err(`ebb: ${notReleased('the agent', error.details as Report)}\n`)
    return 3
  }
}

function isNoPrompt({ type, sequenceNumber }: Message): boolean {
  return type !== 'user' || sequenceNumber > 1
}

/** What is stuck may be gone by now; what is not, the report lists. */
async function tryAgain(stage: Stage, id: string, { grace }: Config): Promise<Agent> {
  const report = await stage.stop(id, { force: false, graceMs: grace })
  if (!report.success) throw new EbbError('not_released', `The agent ${id} could not be released.`, { details: report })
  return await stage.agent(id)
}

function unlessGone(error: unknown): void {
  if (!isEbbError(error, 'agent_not_found')) throw error
}

/** 0 completed, 1 failed, 130 stopped, 3 stuck. */
function verdict(agent: Agent | undefined, id: string, isKept: boolean, say: (text: string) => void): number {
  if (!agent) say('ebb: the agent was deleted meanwhile.\n')
  else if (isKept) say(`ebb: kept as ${id}.\n`)
  if (!agent || agent.status === 'terminated') return 130
  if (agent.status === 'completed') return 0
  say(`ebb: the agent failed: ${agent.error?.message ?? 'it gave no reason.'}\n`)
  return 1
}
