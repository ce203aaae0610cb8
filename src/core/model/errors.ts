import type { Incarnation } from './identity.ts'
import type { Report } from './report.ts'

/** All errors in one table: code, exit code, HTTP status, and when the error occurs. The message is written where the error is thrown. */
export const errorTable = {
  bad_usage: { exit: 2, status: 400, when: 'a flag, a setting or an argument is unknown or has a bad value' },
  unsupported_platform: { exit: 1, status: 500, when: 'Ebb is started on Windows' },
  launch_refused: { exit: 125, status: 400, when: 'the launch cannot start: no command, no such working directory, no such provider' },
  program_not_found: { exit: 127, status: 400, when: 'the program does not exist' },
  program_not_executable: { exit: 126, status: 400, when: 'the program is there but cannot be executed' },
  launch_failed: { exit: 125, status: 500, when: 'something failed in the middle of a launch; it was rolled back' },
  limits_unavailable: { exit: 125, status: 400, when: 'the launch requests a limit that this kernel does not offer' },
  containment_unavailable: { exit: 125, status: 500, when: 'the requested containment is not available' },
  scope_closed: {
    exit: 1,
    status: 409,
    when: 'a launch into a scope that is closing or closed, or a new scope whose id is taken',
  },
  not_released: { exit: 3, status: 409, when: 'a scope was closed and not everything could be proven gone; the report is in the details' },
  home_unusable: { exit: 125, status: 500, when: 'the home cannot be created, read or written' },
  ledger_busy: { exit: 125, status: 503, when: 'another process holds the database locked' },
  ledger_corrupt: { exit: 125, status: 500, when: 'the database is not readable; it was kept aside' },
  ledger_too_new: { exit: 125, status: 500, when: 'the database was written by a newer Ebb' },
  ledger_unavailable: { exit: 125, status: 503, when: 'the database cannot be opened or written' },
  ledger_read_only: { exit: 125, status: 503, when: 'the database can be read and not written' },
  server_running: { exit: 1, status: 409, when: 'a server already runs on this home' },
  port_taken: { exit: 1, status: 409, when: 'another program listens on the port already' },
  invalid_id: { exit: 2, status: 400, when: 'an id is malformed: agents have UUIDs, requests and namespaces plain names' },
  invalid_request: { exit: 2, status: 400, when: 'a body or a query is not valid; the details name the places' },
  unauthorized: { exit: 1, status: 401, when: 'the server requires a token, and it is missing or wrong' },
  forbidden: {
    exit: 1,
    status: 403,
    when: 'the server does not accept the Host or the Origin of the call, or an agent called for something that is not its own',
  },
  not_found: { exit: 1, status: 404, when: 'there is no such route' },
  agent_not_found: { exit: 1, status: 404, when: 'there is no such agent, or it was deleted' },
  task_not_found: { exit: 1, status: 404, when: 'there is no such task, or it was forgotten with its namespace' },
  agent_exists: { exit: 1, status: 409, when: 'the id of the new agent is, or was, the id of another agent' },
  agent_ended: { exit: 1, status: 409, when: 'a report from an agent that has ended or is being ended' },
  report_unwritten: { exit: 1, status: 507, when: 'the report of an agent could not be written to its file' },
  spawn_refused: { exit: 1, status: 429, when: 'a task has as many agents as its limits allow, or its rules forbid this one' },
  cancelled: { exit: 1, status: 409, when: 'the caller cancelled the call' },
  request_exists: { exit: 1, status: 409, when: 'the id of the new request or task belongs to an open one' },
  request_not_found: { exit: 1, status: 404, when: 'there is no such request or task' },
  report_not_found: { exit: 1, status: 404, when: 'there is no such cleanup in the history' },
  resetting: { exit: 1, status: 409, when: 'a launch into a namespace that is being reset' },
  agent_foreign: { exit: 1, status: 409, when: 'the agent belongs to another running ebb; only that one may end it' },
  too_large: { exit: 1, status: 413, when: 'a body is larger than the call takes, or a report would make its file larger than it may be' },
  headers_too_large: { exit: 1, status: 431, when: 'the address and the headers of a call are longer than 16 kB together' },
  request_timeout: { exit: 1, status: 408, when: 'a call was not complete within two minutes' },
  unsupported_media: { exit: 1, status: 415, when: 'a body is not JSON' },
  too_many_agents: { exit: 1, status: 429, when: 'as many agents run as the server allows at once' },
  disk_low: { exit: 1, status: 507, when: 'there is less space left on the disk of the home than a launch needs' },
  server_unreachable: { exit: 1, status: 503, when: 'a command needs the server, and none answers' },
  internal: { exit: 1, status: 500, when: 'an unexpected error; the log of the server has the details' },
  path_refused: { exit: 1, status: 400, when: 'a path leads outside its workspace, or to something that Ebb did not create' },
} as const satisfies Record<string, { exit: number; status: number; when: string }>

export type ErrorCode = keyof typeof errorTable

/** A place in the input of a caller, and what is wrong there. */
export interface Problem {
  readonly path: string
  /** What is wrong, as a sentence. The sentence does not repeat the value, which may be a secret. */
  readonly message: string
}

/** The codes whose errors may have details, and the type of these. */
interface ErrorDetails {
  /** The report of the close that left something. */
  readonly not_released: Report
  /** The report of the close that rolled the launch back. */
  readonly launch_failed: Report
  /** The settings that do not work, and what is wrong with each. */
  readonly launch_refused: readonly { readonly setting: string; readonly says: string }[]
  readonly invalid_id: readonly Problem[]
  readonly invalid_request: readonly Problem[]
  /** The server that runs on the home already. */
  readonly server_running: { readonly id: string; readonly identity: Incarnation }
}

type DetailsOf<Code extends ErrorCode> = Code extends keyof ErrorDetails ? ErrorDetails[Code] : undefined

/** The code decides which details an error may have. */
export type ErrorArguments = {
  [Code in ErrorCode]: [code: Code, message: string, options?: { readonly cause?: unknown; readonly details?: DetailsOf<Code> | undefined }]
}[ErrorCode]

export class EbbError extends Error {
  override readonly name = 'EbbError'
  readonly code: ErrorCode
  readonly details: DetailsOf<ErrorCode>

  constructor(...[code, message, options = {}]: ErrorArguments) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.details = options.details
  }
}

export function isEbbError<Code extends ErrorCode>(
  error: unknown,
  code?: Code,
): error is EbbError & { readonly code: Code; readonly details: DetailsOf<Code> | undefined } {
  return error instanceof EbbError && (code === undefined || error.code === code)
}

/** The error of a close that left something. What is left stays in the ledger, and the reaper tries again. */
export function notReleased(report: Report, what = `agent ${report.scope.id}`): EbbError {
  const reasons = report.errors.map((reason) => reason.replace(/\.$/, '')).join('; ')
  const text = `The ${what} could not be released${reasons && `: ${reasons}`}. The reaper tries again; "ebb status" lists what is left.`
  return new EbbError('not_released', text, { details: report })
}

/** The message of anything that was thrown. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The errno name (`ENOENT`) of a system error. */
export function errno(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}

const mayWrite = 'allow Ebb to write there (check owner, mode and flags; lsattr shows the flags)'

/** Advice for errors of the file system that the user can fix, by errno name. */
const advices: ReadonlyMap<string, string> = new Map([
  ['EACCES', mayWrite],
  ['EPERM', mayWrite],
  ['EROFS', 'make that file system writable'],
  ['ENOSPC', 'free some space there'],
  ['EDQUOT', 'free some space there, or raise the quota'],
])

/** The message of an error, with advice for errors of the file system that only the user can fix. */
export function advised(error: unknown): string {
  const advice = advices.get(errno(error) ?? '')
  return advice === undefined ? sentence(error) : `${sentence(error)}; ${advice}`
}
