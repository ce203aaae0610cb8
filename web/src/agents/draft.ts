import type { Placement } from '../api/labels.tsx'
import type { Agent, LaunchBody, ProviderInput } from '../api/shapes.ts'
import { beginning } from '../pieces/format.ts'
import { exampleSchedule } from './schedule.ts'
import { wordsOf } from './words.ts'

/** The contents of the launch form. All fields are texts; `bodyOf` makes the request body from them. */
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

/** The path of each form field in the request body. The server names this path in its validation errors. */
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

/** Checks the form before it is sent. `inputs` are the fields of the chosen provider. Returns one problem per invalid field. */
export function problemsOf(draft: Draft, inputs: readonly ProviderInput[]): ReadonlyMap<DraftField, string> {
  const problems = new Map<DraftField, string>()
  if (draft.type === '') problems.set('type', 'Choose what to launch.')
  if (inputs.includes('command')) {
    const words = wordsOf(draft.command)
    if (!words) problems.set('command', 'A quote is not closed.')
    else if (words.length === 0) problems.set('command', 'Enter a program and its arguments.')
  } else if (draft.prompt.trim() === '') problems.set('prompt', 'Enter what the agent should do.')
  if (inputs.includes('schedule') && scheduleOf(draft.schedule) === undefined)
    problems.set('schedule', 'This is not a JSON list. Clear the field to use the built-in conversation.')
  if (draft.workingDirectory.trim() !== '' && !draft.workingDirectory.trim().startsWith('/'))
    problems.set('workingDirectory', 'Enter an absolute path on the server machine, such as /srv/project.')
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

export function bodyOf(draft: Draft, inputs: readonly ProviderInput[]): LaunchBody {
  const ifGiven = (value: string, name: string): Record<string, string> => (value.trim() === '' ? {} : { [name]: value.trim() })
  const schedule = inputs.includes('schedule') ? (scheduleOf(draft.schedule) ?? []) : []
  const words = inputs.includes('command') ? (wordsOf(draft.command) ?? []) : []
  const configuration = {
    ...ifGiven(draft.name.trim() === '' && draft.prompt.trim() === '' ? programOf(words) : draft.name, 'conversationName'),
    ...ifGiven(draft.workingDirectory, 'workingDirectory'),
    ...ifGiven(draft.model, 'model'),
    ...(inputs.includes('command') && { command: words }),
    ...(schedule.length > 0 && { schedule }),
  }
  return {
    type: draft.type,
    prompt: draft.prompt,
    ...ifGiven(draft.placement, 'placement'),
    ...ifGiven(draft.namespace, 'namespace'),
    ...ifGiven(draft.requestId, 'requestId'),
    ...(Object.keys(configuration).length > 0 && { configuration }),
  }
}

/** The maximum length of an agent's name. The server rejects longer names. */
const mostName = 100

/** The default name of a command: its program, without the arguments, which may contain secrets. */
function programOf([program = '']: readonly unknown[]): string {
  return beginning(String(program).split('/').at(-1) ?? '', mostName)
}

/** Fills the launch form from an earlier agent. `body` is its request, if this page launched it. Unknown settings stay empty. */
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
    // A default name is not copied: it would be wrong if the user changes the program.
    name: Array.isArray(command) && conversationName === programOf(command) ? '' : conversationName,
    workingDirectory,
    model,
    command: Array.isArray(command) ? command.map((word) => quoted(String(word))).join(' ') : '',
    schedule: schedule === undefined ? '' : JSON.stringify(schedule, null, 2),
  }
}

/** Explains which settings of the earlier agent the form contains, and which are missing. */
export function draftNoteOf(body: LaunchBody | undefined): string {
  if (body) return 'All settings are filled in as they were launched from this tab.'
  return (
    'Filled in from the server: provider, prompt, placement, namespace, request id, name, working directory and model. ' +
    'The server does not return the command line or schedule of an agent, environment variables and other launch options. ' +
    'Fill in the ones you need.'
  )
}

/**
 * The choices of the field for the placement: the placements that can be used, the default first. A placement that was chosen and cannot be
 * used any more stays a choice, so that the server can say what is missing.
 */
export function placementOptions(placements: readonly Placement[], chosen: string): readonly { value: string; text: string }[] {
  const usual = placements.find(({ isDefault }) => isDefault)
  const others = placements.filter(({ name, isAvailable }) => name !== usual?.name && (isAvailable || name === chosen))
  const known = [
    { value: '', text: usual ? `${usual.title} (default)` : 'default' },
    ...others.map(({ name, title }) => ({ value: name, text: title })),
  ]
  const isKnown = known.some(({ value }) => value === chosen)
  return isKnown || chosen === usual?.name ? known : [...known, { value: chosen, text: chosen }]
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
