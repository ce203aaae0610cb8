import type { Config } from '../../config/config.ts'
import { placementKeys } from '../../config/options.ts'
import { type Agent, isFinal } from '../../core/model/agent.ts'
import { EbbError, errno, isEbbError } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import { defaultPlacement, isRemotePlacement, type PlacementTraits } from '../../core/ports/placement.ts'
import type { Arguments } from '../arguments.ts'
import { type Client, connectAndCheck, findServer } from '../client/client.ts'
import { follow } from '../client/follow.ts'
import { notReleased } from '../client/for-each-agent.ts'
import { type CommandDefinition, serverOptions, type Wiring } from '../command.ts'
import { catchSignals } from '../exit/signals.ts'
import { configOf } from '../open.ts'
import { openOutput, unwritten } from '../output.ts'
import { type AgentBackend, type LaunchBody, serverBackend, settingsOf } from '../run/backend.ts'
import { Closing } from '../run/closing.ts'
import { launchStatus, type RunView, runView } from '../run/view.ts'
import { workingDirectory } from './exec.ts'

export const definition: CommandDefinition = {
  name: 'run',
  summary: 'run one agent in the foreground, on the running server or with an engine in this process',
  usage: 'ebb run PROVIDER PROMPT… [options]  (or: ebb run command [INPUT…] -- COMMAND [ARGUMENT…])',
  examples: [
    'ebb run claude-code "Fix the flaky test"',
    'ebb run codex Fix the flaky test --cwd ../project --timeout 20m',
    'ebb run gemini-cli - --model gemini-2.5-pro --keep',
    'ebb run command -- npm test',
    'ebb run command --placement docker --docker-image node:24-slim -- uname -a',
    'ebb run command "two lines of input" -- sort',
  ],
  options: [
    ...serverOptions,
    'store',
    'placement',
    'cwd',
    'model',
    'timeout',
    'keep',
    'namespace',
    'grace',
    'containment',
    ...placementKeys,
  ],
  switches: ['json', 'help'],
  takesWords: {
    names: ['a PROVIDER'],
    most: Number.POSITIVE_INFINITY,
    offers: (given) => (given.length === 0 ? 'providers' : []),
    hasCommand: ([provider]) => provider === 'command',
  },
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const input = await readRunInput(args)
  let onClosed = (_error: Error): void => {}
  const output = openOutput((error) => onClosed(error))
  const view = runView(output, wiring.clock, args.switches.has('json'))
  const server = await findBackend(config, view)
  // A path of this host means nothing on another one.
  const isLocal = (!server || server.isLocal) && !isRemotePlacement(wiring.placementTable, config.placement)
  const folder = isLocal ? workingDirectory() : undefined
  const { configuration, ...settings } = settingsOf(config, folder)
  const body: LaunchBody = { ...settings, ...input, configuration: { ...configuration, ...input.configuration } }
  // Signals are caught from here on. Before this point nothing was created, so a signal may end the process.
  const signals = catchSignals(wiring.inherited.ignored)
  const backend = server ? serverBackend(server) : await (await import('../run/own-backend.ts')).openOwnBackend(config, wiring, view.write)
  const closing = new Closing(backend, config.grace, view, wiring.clock)
  signals.listen((signal, requestsExit) => {
    if (signal === 'SIGHUP') closing.hangUp()
    else if (requestsExit) closing.request()
  })
  let outputError: Error | undefined
  onClosed = (error) => {
    if (errno(error) === 'EIO') return closing.hangUp()
    if (errno(error) !== 'EPIPE' && !outputError) {
      outputError = error
      view.write(unwritten(error))
    }
    closing.requestOnce()
  }
  try {
    const placement = wiring.placementTable.get(config.placement ?? defaultPlacement)
    const work = runAndLeave({ backend, closing, view, placement, isKept: config.keep }, body)
    const code = await Promise.race([work, closing.exitedEarly.then(() => 3)])
    return outputError && code !== 3 ? 1 : code
  } finally {
    // Only output is left to be read, so a signal may end the process now.
    signals.release()
  }
}

/** The part of a launch that the words of `ebb run` give. */
type RunInput = Pick<LaunchBody, 'type' | 'prompt' | 'configuration'>

/** Reads provider and prompt. For `command`, the words after `--` are the command, and those before are its standard input. */
async function readRunInput({ words, rest }: Arguments): Promise<RunInput> {
  const [type = '', ...before] = words.length > 0 ? words : rest
  const after = words.length > 0 ? rest : []
  if (type !== 'command') return { type, prompt: await promptOf([...before, ...after], type), configuration: {} }
  if (after.length === 0)
    throw new EbbError('bad_usage', '"ebb run command" needs a COMMAND after "--", as in: ebb run command -- npm test')
  return { type, prompt: before.length > 0 ? await promptOf(before, type) : '', configuration: { command: after } }
}

/** Joins the words of the prompt. A single `-` reads the prompt from standard input. */
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

async function findBackend(config: Config, view: RunView): Promise<Client | undefined> {
  view.waitFor('waiting for the server to answer')
  return await (config.url === undefined ? findServer(config) : connectAndCheck(config)).finally(view.doneWaiting)
}

interface Run {
  readonly backend: AgentBackend
  readonly closing: Closing
  readonly view: RunView
  readonly placement: PlacementTraits | undefined
  readonly isKept: boolean
}

/** Runs the agent and closes the backend. After the agent's end, signals no longer request a stop. */
async function runAndLeave(current: Run, body: LaunchBody): Promise<number> {
  const { backend, closing } = current
  try {
    const code = await runAgent(current, body)
    closing.finish()
    return (await backend.leave(code !== 3)) ? code : 3
  } catch (error) {
    closing.finish()
    await backend.leave(true)
    throw error
  }
}

async function runAgent(current: Run, body: LaunchBody): Promise<number> {
  const { backend, closing, view, placement, isKept } = current
  view.waitFor(launchStatus(body.type, placement))
  const id = await backend.launch(body).finally(view.doneWaiting)
  closing.begin(id)
  try {
    const willNotEnd = ({ status }: Agent): boolean => {
      if (status === 'stopping') closing.join()
      return closing.hasFailed
    }
    const agent = await follow(backend, id, view.show, { willNotEnd, change: closing.failed })
    view.waitFor('waiting until nothing of the agent is left')
    const report = agent && view.isForPeople ? await closing.report(id) : undefined
    const finished = await finish(current, agent)
    view.doneWaiting()
    return showResult(finished, isKept, report, view)
  } catch (error) {
    view.doneWaiting()
    if (isEbbError(error, 'server_unreachable'))
      throw new EbbError('server_unreachable', `${error.message} ${afterLoss(id)}`, { cause: error })
    if (!isEbbError(error, 'not_released')) {
      // After an error other than a lost server or `not_released`, the agent is removed. A failed removal is not reported.
      await backend.remove(id).catch(() => {})
      throw error
    }
    view.write(`ebb: ${error.details ? notReleased('the agent', error.details) : error.message}\n`)
    return 3
  }
}

/** Returns the advice for a person whose server was lost while an agent ran. */
function afterLoss(id: string): string {
  return `The state of the agent ${id} is unknown. If its server is dead, the agent has ended with it; run "ebb recover". Otherwise run "ebb show ${id}".`
}

/** Deletes the agent, or with --keep waits for the proof of its end. */
async function finish({ backend, closing, isKept }: Run, agent: Agent | undefined): Promise<Agent | undefined> {
  if (!agent) return undefined
  if (!isKept) {
    await backend.remove(agent.id).catch((error: unknown) => {
      if (!isEbbError(error, 'agent_not_found')) throw error
    })
    return agent
  }
  if (isFinal(agent.status)) return agent
  await closing.requireReleased(agent.id)
  return await backend.agent(agent.id)
}

/** Shows the result and returns the exit code: 0 completed, 1 failed, 130 stopped. A failed release (exit code 3) was shown before. */
function showResult(agent: Agent | undefined, isKept: boolean, report: Report | undefined, view: RunView): number {
  if (!agent) view.write('ebb: the agent was deleted meanwhile.\n')
  else {
    view.ended(agent, report)
    if (isKept) view.write(`ebb: kept as ${agent.id}.\n`)
  }
  if (!agent || agent.status === 'terminated') return 130
  if (agent.status === 'completed') return 0
  if (!view.isForPeople) view.write(`ebb: the agent failed: ${agent.error?.message ?? 'it had to be deleted to end it.'}\n`)
  return 1
}
