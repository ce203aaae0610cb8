import { type Agent, isFinal } from '../../domain/agent.ts'
import { isEbbError } from '../../domain/errors.ts'
import type { Message } from '../../domain/message.ts'
import type { Report } from '../../domain/report.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { findServer } from './client.ts'
import { Closing } from './closing.ts'
import { notReleased } from './each-agent.ts'
import { workingDirectory } from './exec.ts'
import { follow } from './follow.ts'
import { configOf } from './open.ts'
import { openOutput } from './output.ts'
import { messagePrinter } from './render.ts'
import { readWords } from './run-words.ts'
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
  const wish = { isJson: args.switches.has('json'), isKept: config.keep, graceMs: config.grace }
  const code = await perform(stage, body, wish, signals).catch(async (error: unknown) => {
    await stage.leave(true)
    throw error
  })
  return (await stage.leave(code !== 3)) ? code : 3
}

interface RunWish {
  readonly isJson: boolean
  readonly isKept: boolean
  readonly graceMs: number
}

async function perform(stage: Stage, body: LaunchBody, wish: RunWish, signals: ReturnType<typeof catchSignals>): Promise<number> {
  const { isJson, isKept, graceMs } = wish
  const id = await stage.launch(body)
  let isRead = true
  const output = openOutput(() => {
    // Nobody reads what it says any more: that is a wish to stop, once.
    if (isRead) closing.ask()
    isRead = false
  })
  const closing = new Closing(stage, id, graceMs, output.err)
  signals.listen((_signal, meansLeave) => meansLeave && closing.ask())
  const print = messagePrinter(output, isJson)
  // Who runs it has just written the prompt.
  const show = (messages: readonly Message[]): void => print(isJson ? messages : messages.filter(isNoPrompt))
  try {
    const isHopeless = ({ status }: Agent): boolean => {
      if (status === 'stopping') closing.join()
      return closing.hasFailed
    }
    const agent = await follow(stage, id, show, { isHopeless, change: closing.failed })
    return verdict(await finish(stage, agent, isKept, closing), isKept, output.err)
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

/** Deleted, or kept and proven to be over. */
async function finish(stage: Stage, agent: Agent | undefined, isKept: boolean, closing: Closing): Promise<Agent | undefined> {
  if (!agent) return undefined
  if (!isKept) {
    await stage.remove(agent.id).catch((error: unknown) => {
      if (!isEbbError(error, 'agent_not_found')) throw error
    })
    return agent
  }
  if (isFinal(agent.status)) return agent
  await closing.requireReleased()
  return await stage.agent(agent.id)
}

function isNoPrompt({ type, sequenceNumber }: Message): boolean {
  return type !== 'user' || sequenceNumber > 1
}

/** 0 completed, 1 failed, 130 stopped; 3 was said already. */
function verdict(agent: Agent | undefined, isKept: boolean, say: (text: string) => void): number {
  if (!agent) say('ebb: the agent was deleted meanwhile.\n')
  else if (isKept) say(`ebb: kept as ${agent.id}.\n`)
  if (!agent || agent.status === 'terminated') return 130
  if (agent.status === 'completed') return 0
  say(`ebb: the agent failed: ${agent.error?.message ?? 'its end could only be had by deleting it.'}\n`)
  return 1
}
