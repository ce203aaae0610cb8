import { isRemote } from '../../agents/preflight.ts'
import type { Config } from '../../config/config.ts'
import { type Agent, isFinal } from '../../core/model/agent.ts'
import { EbbError, errno, isEbbError } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import { type AgentBackend, type LaunchBody, serverBackend, settingsOf } from '../agent-backend.ts'
import type { Arguments } from '../arguments.ts'
import type { Wiring } from '../cli.ts'
import { type Client, findServer, greet } from '../client.ts'
import { Closing } from '../closing.ts'
import { notReleased } from '../each-agent.ts'
import { follow } from '../follow.ts'
import { configOf } from '../open.ts'
import { openOutput, unwritten } from '../output.ts'
import { launchWords, type RunFace, runFace } from '../run-face.ts'
import { readWords } from '../run-words.ts'
import { catchSignals } from '../signals.ts'
import { workingDirectory } from './exec.ts'

/** `ebb run PROVIDER PROMPT…`: one agent in the foreground, on the running server or on an engine of our own. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const wanted = await readWords(args)
  let onClosed = (_error: Error): void => {}
  const output = openOutput((error) => onClosed(error))
  const face = runFace(output, wiring.clock, args.switches.has('json'))
  const server = await find(config, face)
  // A folder of this host means nothing elsewhere.
  const isHere = (!server || server.isLocal) && !isRemote({ placement: config.placement ?? 'process' })
  const folder = isHere ? workingDirectory() : undefined
  const { configuration, ...settings } = settingsOf(config, folder)
  const body: LaunchBody = { ...settings, ...wanted, configuration: { ...configuration, ...wanted.configuration } }
  // Until here there is nothing that a signal would leave behind.
  const signals = catchSignals(wiring.inherited.ignored)
  const backend = server ? serverBackend(server) : await (await import('../own-backend.ts')).openOwnBackend(config, wiring, face.say)
  const closing = new Closing(backend, config.grace, face, wiring.clock)
  signals.listen((signal, meansLeave) => {
    if (signal === 'SIGHUP') closing.hangUp()
    else if (meansLeave) closing.ask()
  })
  let lost: Error | undefined
  onClosed = (error) => {
    if (errno(error) === 'EIO') return closing.hangUp()
    if (errno(error) !== 'EPIPE' && !lost) {
      lost = error
      face.say(unwritten(error))
    }
    closing.askOnce()
  }
  try {
    const work = performAndLeave({ backend, closing, face, isKept: config.keep }, body)
    const code = await Promise.race([work, closing.left.then(() => 3)])
    return lost && code !== 3 ? 1 : code
  } finally {
    // What is left is to be read by others, in their time: a signal ends us as it ends anybody.
    signals.release()
  }
}

async function find(config: Config, face: RunFace): Promise<Client | undefined> {
  face.waitFor('waiting for the server to answer')
  return await (config.url === undefined ? findServer(config) : greet(config)).finally(face.over)
}

interface Scene {
  readonly backend: AgentBackend
  readonly closing: Closing
  readonly face: RunFace
  readonly isKept: boolean
}

/** Whatever comes after the agent's end is no reason to ask for it. */
async function performAndLeave(scene: Scene, body: LaunchBody): Promise<number> {
  const { backend, closing } = scene
  try {
    const code = await perform(scene, body)
    closing.over()
    return (await backend.leave(code !== 3)) ? code : 3
  } catch (error) {
    closing.over()
    await backend.leave(true)
    throw error
  }
}

async function perform(scene: Scene, body: LaunchBody): Promise<number> {
  const { backend, closing, face, isKept } = scene
  face.waitFor(launchWords(body.type, body.placement))
  const id = await backend.launch(body).finally(face.over)
  closing.begin(id)
  try {
    const isHopeless = ({ status }: Agent): boolean => {
      if (status === 'stopping') closing.join()
      return closing.hasFailed
    }
    const agent = await follow(backend, id, face.show, { isHopeless, change: closing.failed })
    face.waitFor('looking until nothing of it is left')
    const report = agent && face.isForPeople ? await closing.report(id) : undefined
    const finished = await finish(scene, agent)
    face.over()
    return verdict(finished, isKept, report, face)
  } catch (error) {
    face.over()
    if (isEbbError(error, 'server_unreachable'))
      throw new EbbError('server_unreachable', `${error.message} ${fateOf(id)}`, { cause: error })
    if (!isEbbError(error, 'not_released')) {
      // Whatever went wrong here, the agent does not outlive it.
      await backend.remove(id).catch(() => {})
      throw error
    }
    face.say(`ebb: ${notReleased('the agent', error.details as Report)}\n`)
    return 3
  }
}

/** Of an agent whose server is lost. */
function fateOf(id: string): string {
  return `What became of the agent ${id} is not known: if its server is dead, it has ended with it, and "ebb recover" finishes what is left; else "ebb show ${id}" tells.`
}

/** Deleted, or kept and proven to be over. */
async function finish({ backend, closing, isKept }: Scene, agent: Agent | undefined): Promise<Agent | undefined> {
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

/** 0 completed, 1 failed, 130 stopped; 3 was said already. */
function verdict(agent: Agent | undefined, isKept: boolean, report: Report | undefined, face: RunFace): number {
  if (!agent) face.say('ebb: the agent was deleted meanwhile.\n')
  else {
    face.ended(agent, report)
    if (isKept) face.say(`ebb: kept as ${agent.id}.\n`)
  }
  if (!agent || agent.status === 'terminated') return 130
  if (agent.status === 'completed') return 0
  if (!face.isForPeople) face.say(`ebb: the agent failed: ${agent.error?.message ?? 'its end could only be had by deleting it.'}\n`)
  return 1
}
