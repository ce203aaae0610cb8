import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, useCallback, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from 'react'
import { count } from '../pieces/format.ts'
import { Problem } from '../pieces/notes.tsx'
import { MessageLine } from './message.tsx'
import type { Conversation } from './store.ts'

interface ConversationPanelProps {
  readonly agentId: string
  readonly conversation: Conversation
}

/**
 * Chromium draws no element taller than about 33 million pixels. Of a longer conversation only the last messages are shown; the first
 * message shown advances in steps of `stepRows`.
 */
const mostRows = 300_000
const stepRows = 100_000

/** A scroll position closer to the end than this counts as the end. */
const endPx = 48

/** The live conversation. It follows the end until the reader scrolls up or opens a message. */
export function ConversationPanel({ agentId, conversation }: ConversationPanelProps) {
  useSyncExternalStore(conversation.subscribe, conversation.version)
  const { total, problem } = conversation
  const box = useRef<HTMLDivElement>(null)
  const [isFollowing, setFollowing] = useState(true)
  const [seen, setSeen] = useState(total)
  const [opened, setOpened] = useState<ReadonlySet<number>>(() => new Set())
  const before = total > mostRows ? Math.ceil((total - mostRows) / stepRows) * stepRows : 0
  const virtual = useVirtualizer({
    count: total - before,
    getScrollElement: () => box.current,
    estimateSize: () => 62,
    overscan: 6,
    getItemKey: (index) => before + index,
  })
  const items = virtual.getVirtualItems()
  const size = virtual.getTotalSize()
  const first = before + (items[0]?.index ?? 0) + 1
  const last = before + (items.at(-1)?.index ?? 0) + 1
  useEffect(() => {
    conversation.want(first, last)
  })
  // biome-ignore lint/correctness/useExhaustiveDependencies: the end moves when any of these changes
  useLayoutEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [isFollowing, total, size])

  const lastTop = useRef(0)
  const onScroll = (): void => {
    if (!box.current) return
    const { scrollTop, scrollHeight, clientHeight } = box.current
    const isAtEnd = scrollHeight - scrollTop - clientHeight < endPx
    const isUp = scrollTop < lastTop.current
    lastTop.current = scrollTop
    if (isAtEnd && !isFollowing) setFollowing(true)
    // Only the reader scrolls up: growing content moves the end down and does not change the scroll position.
    else if (!isAtEnd && isUp && isFollowing) leaveEnd()
  }
  const leaveEnd = useCallback(() => {
    setFollowing(false)
    setSeen(conversation.total)
  }, [conversation])
  const toStart = (): void => {
    leaveEnd()
    virtual.scrollToIndex(0, { align: 'start' })
    box.current?.focus({ preventScroll: true })
  }
  const toEnd = (): void => {
    setFollowing(true)
    box.current?.focus({ preventScroll: true })
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const jump = { Home: toStart, End: toEnd }[event.key]
    // Home and End scroll a long message while it has the focus, and with Shift they select text.
    if (!jump || event.shiftKey || (event.target as Element).closest('.message__long')) return
    // The browser would scroll to the end as it was at the key press, and miss messages that arrive meanwhile.
    event.preventDefault()
    jump()
  }
  const toggle = useCallback((number: number) => {
    setOpened((known) => {
      const next = new Set(known)
      if (!next.delete(number)) next.add(number)
      return next
    })
  }, [])

  const unseen = isFollowing ? 0 : total - seen
  return (
    <section className="panel conversation" aria-label="Conversation">
      <div className="panel__head">
        <h2>
          Conversation <span className="quiet conversation__count">{count(total)}</span>
        </h2>
        <div className="conversation__jumps">
          <button type="button" className="button button--small" onClick={toStart}>
            Start
          </button>
          <button type="button" className="button button--small" onClick={toEnd} aria-pressed={isFollowing}>
            End
          </button>
        </div>
      </div>
      {before > 0 && (
        <p className="quiet conversation__before">
          The first {count(before)} messages are not shown here. "ebb logs {agentId}" prints all of them.
        </p>
      )}
      {problem !== undefined && <Problem onRetry={() => conversation.retry()}>{problem}</Problem>}
      <div
        ref={box}
        className="conversation__box"
        onScroll={onScroll}
        onKeyDown={onKeyDown}
        role="feed"
        aria-label="Messages"
        aria-busy={total === 0}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        tabIndex={0}
      >
        <div className="conversation__space" style={{ height: size }}>
          {items.map(({ index, key, start }) => (
            <div
              key={key}
              data-index={index}
              ref={virtual.measureElement}
              className="conversation__row"
              style={{ transform: `translateY(${start}px)` }}
            >
              {/* A message shown as part of an earlier one keeps an empty row, because row indexes are message numbers. */}
              {!conversation.isContinuation(before + index + 1) && (
                <MessageLine
                  agentId={agentId}
                  number={before + index + 1}
                  total={total}
                  line={conversation.joined(before + index + 1)}
                  isOpen={opened.has(before + index + 1)}
                  onToggle={toggle}
                  onRead={leaveEnd}
                />
              )}
            </div>
          ))}
        </div>
      </div>
      {unseen > 0 && (
        <button type="button" className="button button--primary conversation__news" onClick={toEnd}>
          {count(unseen)} new ↓
        </button>
      )}
    </section>
  )
}
