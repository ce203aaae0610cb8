import { memo, useState } from 'react'
import { fetchMessages } from '../api/calls.ts'
import { sentenceOf } from '../api/client.ts'
import type { MessageType } from '../api/shapes.ts'
import { bytes, moment, oneLine, plainText } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import type { Line } from './store.ts'

interface MessageLineProps {
  readonly agentId: string
  readonly number: number
  readonly total: number
  readonly line: Line | undefined
  readonly isOpen: boolean
  readonly onToggle: (number: number) => void
  /** Called when the reader opens a part of the message. The view must then stop following the end. */
  readonly onRead: () => void
}

const labels: Readonly<Record<MessageType, string>> = {
  user: 'Prompt',
  assistant: 'Agent',
  system: 'System',
  error: 'Error',
  tool: 'Tool',
  response: 'Output',
}

type More =
  | { readonly is: 'text' | 'raw'; readonly text: string }
  | { readonly is: 'loading' }
  | { readonly is: 'failed'; readonly reason: string }

/** A message of the conversation. Its text is never interpreted as markup. Tool calls and results are folded to one line until opened. */
export const MessageLine = memo(function MessageLine({ agentId, number, total, line, isOpen, onToggle, onRead }: MessageLineProps) {
  const [more, setMore] = useState<More>()
  if (!line) return <article className="message message--absent" aria-posinset={number} aria-setsize={total} data-number={number} />
  // The rest of a long text, and the raw line that the program wrote, are fetched on demand.
  const fetchMore = async (is: 'text' | 'raw'): Promise<void> => {
    onRead()
    setMore({ is: 'loading' })
    try {
      const [message] = await fetchMessages(agentId, number - 1, 1, undefined)
      setMore({ is, text: is === 'text' ? (message?.content ?? '') : JSON.stringify(message?.raw, null, 2) })
    } catch (error) {
      setMore({ is: 'failed', reason: sentenceOf(error) })
    }
  }
  const fold = (): void => {
    if (!isOpen) onRead()
    onToggle(number)
  }
  const isFolded = line.type === 'tool'
  const isRaw = more?.is === 'raw'
  const kind = `message--${line.isThought ? 'thought' : line.type} ${line.isFailure ? 'message--failure' : ''}`
  return (
    <article className={`message ${kind}`} aria-posinset={number} aria-setsize={total} data-number={number}>
      <div className="message__head">
        <span className="message__label">{labelOf(line)}</span>
        {isFolded && (
          <button type="button" className="message__fold" aria-expanded={isOpen} onClick={fold}>
            <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
            <bdi className="message__summary">{summaryOf(line)}</bdi>
          </button>
        )}
        <span className="message__place">
          {line.hasRaw && (
            <button
              type="button"
              className="message__raw"
              aria-expanded={isRaw}
              aria-label={isRaw ? `Hide the raw line of message ${number}` : `Show the raw line of message ${number}`}
              onClick={() => (isRaw ? setMore(undefined) : void fetchMore('raw'))}
            >
              raw
            </button>
          )}
          <time dateTime={line.createdAt}>{moment(line.createdAt)}</time>
          <span>{line.until === number ? `#${number}` : `#${number}–${line.until}`}</span>
        </span>
      </div>
      {(!isFolded || isOpen) && more?.is !== 'text' && (
        <div className="message__text" dir="auto">
          {plainText(line.text)}
          {line.length > line.text.length && '…'}
        </div>
      )}
      {(more?.is === 'text' || isRaw) && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        <pre className="message__long" tabIndex={0} dir={isRaw ? undefined : 'auto'}>
          {plainText(more.text)}
        </pre>
      )}
      {more?.is === 'loading' && <Progress>Loading the full text</Progress>}
      {more?.is === 'failed' && <Problem>{more.reason}</Problem>}
      {line.length > line.text.length && (!isFolded || isOpen) && more?.is !== 'text' && (
        <button type="button" className="button button--small message__more" onClick={() => void fetchMore('text')}>
          Show all {bytes(line.length)}
        </button>
      )}
    </article>
  )
})

function labelOf({ type, isThought, isResult, number }: Line): string {
  if (type === 'tool' && isResult) return 'Result'
  if (type === 'assistant' && isThought) return 'Thought'
  // Only the first user message is the prompt of the launch.
  return type === 'user' && number > 1 ? 'User' : labels[type]
}

function summaryOf({ tool, text, isFailure }: Line): string {
  const firstLine = oneLine(text.trimStart().split('\n', 1)[0] ?? '', 140)
  const name = tool === undefined || firstLine.startsWith(tool) ? '' : `${tool}: `
  return `${isFailure ? 'failed: ' : ''}${name}${firstLine || 'no output'}`
}
