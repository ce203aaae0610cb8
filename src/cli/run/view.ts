import type { Agent } from '../../core/model/agent.ts'
import type { Message } from '../../core/model/message.ts'
import type { Report } from '../../core/model/report.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { PlacementTraits } from '../../core/ports/placement.ts'
import { messagePrinter, type Output } from '../output.ts'
import { conversationOn } from '../terminal/conversation.ts'
import { wrap } from '../terminal/flow.ts'
import { statusLine } from '../terminal/status-line.ts'
import { durationOf, flat, many } from '../terminal/text.ts'
import type { CloseListener } from './closing.ts'

/** The output of `ebb run`: on a terminal a formatted conversation with a final summary, in a pipe only the messages. */
export interface RunView extends CloseListener {
  readonly show: (messages: readonly Message[]) => void
  /** Shows how the agent ended, and the proof that nothing of it is left. */
  readonly ended: (agent: Agent, report: Report | undefined) => void
  /** Writes a line to standard error. */
  readonly write: (text: string) => void
  /** True when the output is for a person. Then `ended` shows the end of the agent; otherwise it shows nothing. */
  readonly isForPeople: boolean
  /** Shows in the status line what the command waits for. */
  readonly waitFor: (work: string) => void
  readonly doneWaiting: () => void
}

/** How many lines of a tool's result are shown. */
const resultLines = 6

export function runView(output: Output, clock: Clock, isJson: boolean): RunView {
  const line = statusLine(clock, isJson, () => conversation?.isOpen ?? false)
  // Every write hides the status line first.
  const hiding =
    (write: (text: string) => void) =>
    (text: string): void => {
      line.hide()
      write(text)
    }
  const hidingOutput: Output = {
    out: hiding(output.out),
    err: hiding(output.err),
    painted: hiding(output.painted),
    paintedError: hiding(output.paintedError),
    get style() {
      return output.style
    },
    get errorStyle() {
      return output.errorStyle
    },
  }
  const conversation = conversationOn(hidingOutput, isJson, { resultLines })
  const print = messagePrinter(hidingOutput, isJson)
  const write = (text: string): void => {
    conversation?.end()
    hidingOutput.err(text)
  }
  /** Writes the answer to a key over the terminal's echo of it, such as `^C`. */
  const writeOverEcho = (text: string): void => {
    conversation?.end()
    line.wipe()
    hidingOutput.err(text)
  }
  return {
    // In a pipe the prompt is not shown: the caller has just given it.
    show: conversation ? conversation.show.bind(conversation) : (messages) => print(isJson ? messages : messages.filter(isNoPrompt)),
    write,
    isForPeople: conversation !== undefined,
    waitFor: line.waitFor,
    doneWaiting: () => {
      line.end()
      conversation?.end()
    },
    stoppingSoon: () => {
      writeOverEcho(
        conversation
          ? 'stopping as soon as it has started (again to exit)\n'
          : 'ebb: the agent is stopped as soon as it has started; repeat the signal to exit without waiting.\n',
      )
      line.waitFor('waiting for the start of the agent, to stop it; Ctrl-C again exits')
    },
    stopping: () => {
      writeOverEcho(conversation ? 'stopping… (again to force)\n' : 'ebb: stopping the agent; repeat the signal to force it.\n')
      line.waitFor('stopping; Ctrl-C again forces it')
    },
    forcing: () => {
      if (conversation) writeOverEcho('forcing…\n')
      line.waitFor('forcing it, and waiting until it is gone')
    },
    leaving: (farewell) => {
      line.end()
      writeOverEcho(`ebb: ${farewell}\n`)
    },
    failed: (reason) => write(`ebb: the agent could not be stopped: ${reason}\n`),
    ended: (agent, report) => {
      line.end()
      if (!conversation) return
      conversation.break()
      const { width = 80, palette } = output.style
      const paint = agent.status === 'completed' ? palette.good : agent.status === 'terminated' ? palette.busy : palette.bad
      const [first = '', ...rest] = wrap(closingLine(agent, report), width - 2, '  ')
      const [mark = '', word = ''] = [first.slice(0, 1), /^.\s(\S+)/u.exec(first)?.[1]]
      const words = first.slice(2 + word.length)
      output.painted(`${[`${paint(`${mark} ${word}`)}${palette.faint(words)}`, ...rest.map(palette.faint)].join('\n')}\n`)
    },
  }
}

const marks = { completed: '✓', terminated: '■' } as const

function closingLine({ status, createdAt, completedAt, session, error }: Agent, report: Report | undefined): string {
  const mark = status === 'completed' || status === 'terminated' ? marks[status] : '✗'
  const took = completedAt === undefined ? '' : ` in ${durationOf(Date.parse(completedAt) - Date.parse(createdAt))}`
  const why = status === 'failed' && error ? `: ${flat(error.message)}` : ''
  return [`${mark} ${status}${took}${why}`, many(session.messageCount, 'message'), proofOf(report)].filter(Boolean).join(' · ')
}

/** The number of released resources, and the strength of their proofs. */
function proofOf(report: Report | undefined): string {
  if (!report) return ''
  const released = report.resources.filter(({ outcome }) => outcome === 'released')
  const counts = new Map<string, number>()
  for (const { proof } of released) if (proof) counts.set(proof.strength, (counts.get(proof.strength) ?? 0) + 1)
  const strengths = [...counts].map(([strength, count]) => (counts.size === 1 ? strength : `${strength} (${count})`))
  return `${many(released.length, 'resource')} released${strengths.length > 0 ? `, proof: ${strengths.join(', ')}` : ''}`
}

function isNoPrompt({ type, sequenceNumber }: Message): boolean {
  return type !== 'user' || sequenceNumber > 1
}

/** The status line during a launch. */
export function launchStatus(type: string, placement: PlacementTraits | undefined): string {
  return `waiting for ${placement?.labels.waitsFor ?? `${flat(type)} to start`}`
}
