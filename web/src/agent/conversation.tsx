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

/** A browser draws no element taller than 33 million pixels; of a longer conversation the last are shown, and they move on by steps. */
const mostRows = 300_000
const stepRows = 100_000

/** Nearer to the end than this is at the end. */
const endPx = 48

/** What the agent says, while it says it. It follows the end, unless the reader has gone up, or has opened something, to read. */
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each of these the end moves
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
    // Only a reader goes up; what grows pushes down.
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
    const way = { Home: toStart, End: toEnd }[event.key]
    // What is long scrolls by itself, and with Shift one marks.
    if (!way || event.shiftKey || (event.target as Element).closest('.message__long')) return
    // The browser would go to where the end was, and what comes meanwhile would make it miss.
    event.preventDefault()
    way()
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
        <div className="conversation__ways">
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
          The first {count(before)} are not shown here; "ebb logs {agentId}" has all.
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
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
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
              {/* Of what is shown with one before it an empty row is left: places are numbers. */}
              {!conversation.goesOn(before + index + 1) && (
                <MessageLine
                  agentId={agentId}
                  number={before + index + 1}
                  total={total}
                  line={conversation.whole(before + index + 1)}
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
