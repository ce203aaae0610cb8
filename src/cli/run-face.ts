import type { Agent } from '../core/model/agent.ts'
import type { Message } from '../core/model/message.ts'
import type { Report } from '../core/model/report.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Teller } from './closing.ts'
import type { Output } from './output.ts'
import { messagePrinter } from './render.ts'
import { conversationOn } from './terminal/conversation.ts'
import { wrap } from './terminal/flow.ts'
import { statusLine } from './terminal/status-line.ts'
import { durationOf, flat, many } from './terminal/text.ts'

/** How `ebb run` looks: a conversation with a last line on a terminal, and in a pipe what was said and nothing else. */
export interface RunFace extends Teller {
  readonly show: (messages: readonly Message[]) => void
  /** How it ended, and who vouches that nothing of it is left. */
  readonly ended: (agent: Agent, report: Report | undefined) => void
  readonly say: (text: string) => void
  /** Whether `ended` has anything to say. */
  readonly isForPeople: boolean
  /** What is waited for now, for whoever looks longer than a second. */
  readonly waitFor: (words: string) => void
  readonly over: () => void
}

/** What of a tool's result is shown. */
const resultLines = 6

export function runFace(output: Output, clock: Clock, isJson: boolean): RunFace {
  const line = statusLine(clock, isJson, () => view?.isOpen ?? false)
  // Whoever writes takes the line away first.
  const hiding =
    (write: (text: string) => void) =>
    (text: string): void => {
      line.hide()
      write(text)
    }
  const aside: Output = {
    out: hiding(output.out),
    err: hiding(output.err),
    painted: hiding(output.painted),
    paintedError: hiding(output.paintedError),
    get face() {
      return output.face
    },
    get errorFace() {
      return output.errorFace
    },
  }
  const view = conversationOn(aside, isJson, { resultLines })
  const print = messagePrinter(aside, isJson)
  const say = (text: string): void => {
    view?.end()
    aside.err(text)
  }
  /** To a key: in the place of what the terminal echoed of it. */
  const answer = (text: string): void => {
    view?.end()
    line.wipe()
    aside.err(text)
  }
  return {
    // In a pipe the prompt is not shown: who runs it has just written it.
    show: view ? view.show.bind(view) : (messages) => print(isJson ? messages : messages.filter(isNoPrompt)),
    say,
    isForPeople: view !== undefined,
    waitFor: line.waitFor,
    over: () => {
      line.over()
      view?.end()
    },
    stoppingSoon: () => {
      answer(
        view
          ? 'stopping as soon as it has started (again to leave)\n'
          : 'ebb: the agent is stopped as soon as it has started; once more leaves it alone.\n',
      )
      line.waitFor('waiting for its start, to stop it; Ctrl-C again leaves')
    },
    stopping: () => {
      answer(view ? 'stopping… (again to force)\n' : 'ebb: stopping the agent; once more forces it.\n')
      line.waitFor('stopping; Ctrl-C again forces it')
    },
    forcing: () => {
      if (view) answer('forcing…\n')
      line.waitFor('forcing it, and looking until it is gone')
    },
    leaving: (farewell) => {
      line.over()
      answer(`ebb: ${farewell}\n`)
    },
    failed: (why) => say(`ebb: the agent could not be stopped: ${why}\n`),
    ended: (agent, report) => {
      line.over()
      if (!view) return
      view.break()
      const { width = 80, palette } = output.face
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

const witnesses = { kernel: 'the kernel', api: 'the API', scan: 'a scan' } as const

/** What was released, and who vouches for how much of it. */
function proofOf(report: Report | undefined): string {
  if (!report) return ''
  const released = report.resources.filter(({ outcome }) => outcome === 'released')
  const counts = new Map<keyof typeof witnesses, number>()
  for (const { proof } of released) if (proof) counts.set(proof.strength, (counts.get(proof.strength) ?? 0) + 1)
  const vouching = [...counts].map(([strength, count]) => (counts.size === 1 ? witnesses[strength] : `${witnesses[strength]} (${count})`))
  return `${many(released.length, 'resource')} released${vouching.length > 0 ? `, vouched for by ${vouching.join(' and ')}` : ''}`
}

function isNoPrompt({ type, sequenceNumber }: Message): boolean {
  return type !== 'user' || sequenceNumber > 1
}

const placements: Readonly<Record<string, string>> = {
  docker: 'Docker to start the container',
  ecs: 'ECS to run the task',
  remote: 'the runner host to start the agent',
  tmux: 'the terminal of the agent',
}

/** What a launch waits for, as far as one can tell from outside. */
export function launchWords(type: string, placement = 'process'): string {
  return `waiting for ${placements[placement] ?? `${flat(type)} to start`}`
}
