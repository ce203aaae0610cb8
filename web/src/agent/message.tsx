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
  /** Somebody opens something of it, to read it there. */
  readonly onRead: () => void
}

const speakers: Readonly<Record<MessageType, string>> = {
  user: 'Prompt',
  assistant: 'Agent',
  system: 'System',
  error: 'Error',
  tool: 'Tool',
  response: 'Output',
}

type More =
  | { readonly is: 'text' | 'raw'; readonly text: string }
  | { readonly is: 'asking' }
  | { readonly is: 'failed'; readonly why: string }

/** One message. Text is shown as text, whatever is in it; a tool's part is folded to one line until somebody wants it. */
export const MessageLine = memo(function MessageLine({ agentId, number, total, line, isOpen, onToggle, onRead }: MessageLineProps) {
  const [more, setMore] = useState<More>()
  if (!line) return <article className="message message--absent" aria-posinset={number} aria-setsize={total} data-number={number} />
  // The rest of a long text, and the line that the program wrote, are fetched when somebody wants them.
  const fetchMore = async (is: 'text' | 'raw'): Promise<void> => {
    onRead()
    setMore({ is: 'asking' })
    try {
      const [message] = await fetchMessages(agentId, number - 1, 1, undefined)
      setMore({ is, text: is === 'text' ? (message?.content ?? '') : JSON.stringify(message?.raw, null, 2) })
    } catch (error) {
      setMore({ is: 'failed', why: sentenceOf(error) })
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
        <span className="message__speaker">{speakerOf(line)}</span>
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
              aria-label={isRaw ? `Hide the raw line of ${number}` : `Raw line of ${number}`}
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
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
        <pre className="message__long" tabIndex={0} dir={isRaw ? undefined : 'auto'}>
          {plainText(more.text)}
        </pre>
      )}
      {more?.is === 'asking' && <Progress>Asking for all of it</Progress>}
      {more?.is === 'failed' && <Problem>{more.why}</Problem>}
      {line.length > line.text.length && (!isFolded || isOpen) && more?.is !== 'text' && (
        <button type="button" className="button button--small message__more" onClick={() => void fetchMore('text')}>
          Show all {bytes(line.length)}
        </button>
      )}
    </article>
  )
})

function speakerOf({ type, isThought, isResult, number }: Line): string {
  if (type === 'tool' && isResult) return 'Result'
  if (type === 'assistant' && isThought) return 'Thought'
  // Only the first is what it was launched with.
  return type === 'user' && number > 1 ? 'User' : speakers[type]
}

function summaryOf({ tool, text, isFailure }: Line): string {
  const said = oneLine(text.trimStart().split('\n', 1)[0] ?? '', 140)
  const name = tool === undefined || said.startsWith(tool) ? '' : `${tool}: `
  return `${isFailure ? 'failed: ' : ''}${name}${said || 'no output'}`
}
