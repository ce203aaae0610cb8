import type { Agent, LaunchBody } from '../api/shapes.ts'
import { beginning } from '../pieces/format.ts'
import { exampleSchedule } from './schedule.ts'
import { wordsOf } from './words.ts'

/** The launch form as it is being filled in: texts, until they are made a body. */
export interface Draft {
  readonly type: string
  readonly prompt: string
  readonly placement: string
  readonly namespace: string
  readonly requestId: string
  readonly name: string
  readonly workingDirectory: string
  readonly model: string
  readonly command: string
  readonly schedule: string
}

export type DraftField = keyof Draft

export const emptyDraft: Draft = {
  type: '',
  prompt: '',
  placement: '',
  namespace: '',
  requestId: '',
  name: '',
  workingDirectory: '',
  model: '',
  command: '',
  schedule: JSON.stringify(exampleSchedule, null, 2),
}

/** Where the server's words about a body belong in the form. */
export const pathOf: Readonly<Record<DraftField, string>> = {
  type: 'type',
  prompt: 'prompt',
  placement: 'placement',
  namespace: 'namespace',
  requestId: 'requestId',
  name: 'configuration.conversationName',
  workingDirectory: 'configuration.workingDirectory',
  model: 'configuration.model',
  command: 'configuration.command',
  schedule: 'configuration.schedule',
}

/** What can be seen to be wrong before anybody is asked. */
export function problemsOf(draft: Draft): ReadonlyMap<DraftField, string> {
  const problems = new Map<DraftField, string>()
  if (draft.type === '') problems.set('type', 'Choose what to launch.')
  if (draft.type === 'command') {
    const words = wordsOf(draft.command)
    if (!words) problems.set('command', 'A quote is not closed.')
    else if (words.length === 0) problems.set('command', 'Give a program and its arguments.')
  } else if (draft.prompt.trim() === '') problems.set('prompt', 'Say what the agent should do.')
  if (draft.type === 'synthetic' && scheduleOf(draft.schedule) === undefined)
    problems.set('schedule', 'This is not a JSON list; clear it to use the built-in conversation.')
  if (draft.workingDirectory.trim() !== '' && !draft.workingDirectory.trim().startsWith('/'))
    problems.set('workingDirectory', 'Give an absolute path on the machine of the server, such as /srv/project.')
  return problems
}

function scheduleOf(text: string): readonly unknown[] | undefined {
  if (text.trim() === '') return []
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

export function bodyOf(draft: Draft): LaunchBody {
  const said = (value: string, name: string): Record<string, string> => (value.trim() === '' ? {} : { [name]: value.trim() })
  const schedule = draft.type === 'synthetic' ? (scheduleOf(draft.schedule) ?? []) : []
  const words = draft.type === 'command' ? (wordsOf(draft.command) ?? []) : []
  const configuration = {
    ...said(draft.name.trim() === '' && draft.prompt.trim() === '' ? programOf(words) : draft.name, 'conversationName'),
    ...said(draft.workingDirectory, 'workingDirectory'),
    ...said(draft.model, 'model'),
    ...(draft.type === 'command' && { command: words }),
    ...(schedule.length > 0 && { schedule }),
  }
  return {
    type: draft.type,
    prompt: draft.prompt,
    ...said(draft.placement, 'placement'),
    ...said(draft.namespace, 'namespace'),
    ...said(draft.requestId, 'requestId'),
    ...(Object.keys(configuration).length > 0 && { configuration }),
  }
}

/** The server takes no longer name. */
const mostName = 100

/** What a command is called of which nobody said more. Its arguments may hold secrets. */
function programOf([program = '']: readonly unknown[]): string {
  return beginning(String(program).split('/').at(-1) ?? '', mostName)
}

/** The form of an agent that was: all that this page knows of how it was launched; what it does not know is empty. */
export function draftOf(agent: Agent, body: LaunchBody | undefined): Draft {
  const { workingDirectory = '', model = '', conversationName = '' } = agent.session.configuration
  const { command, schedule } = body?.configuration ?? {}
  return {
    ...emptyDraft,
    type: agent.type,
    prompt: agent.session.prompt,
    placement: agent.placement,
    namespace: agent.namespace === 'default' ? '' : agent.namespace,
    requestId: agent.requestId ?? '',
    // A name that was only the program's goes with the program.
    name: Array.isArray(command) && conversationName === programOf(command) ? '' : conversationName,
    workingDirectory,
    model,
    command: Array.isArray(command) ? command.map((word) => quoted(String(word))).join(' ') : '',
    schedule: schedule === undefined ? '' : JSON.stringify(schedule, null, 2),
  }
}

/** What the form has of the one before, and what it cannot have. */
export function keptOf({ type }: Agent, body: LaunchBody | undefined): string {
  if (body) return 'Everything is filled in as it was launched from this tab.'
  const lost = type === 'command' ? 'its command line, ' : type === 'synthetic' ? 'its schedule, ' : ''
  return (
    'Filled in is what the server keeps: provider, prompt, placement, namespace, request id, name, working directory and model. ' +
    `It does not give back ${lost}environment variables and what else it was launched with: fill in what is needed.`
  )
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
