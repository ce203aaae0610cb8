import { createContext, type ReactNode, useCallback, useContext, useMemo, useRef, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { useFocusHeir } from './focus.ts'

export interface ToastWish {
  readonly text: string
  readonly tone?: 'good' | 'bad'
  /** Undoes what the toast tells of; `text` is what is said when that worked. */
  readonly undo?: { readonly label: string; readonly run: () => Promise<void>; readonly text: string }
}

interface Toast extends ToastWish {
  readonly id: number
  readonly isBusy: boolean
}

/** Long enough to read it and to reach for Undo; a failure stays until somebody has seen it. */
const shownMs = 10_000

const Context = createContext<(closeRequest: ToastWish) => void>(() => {})

export function useToast(): (closeRequest: ToastWish) => void {
  return useContext(Context)
}

/** What was done, told to everybody, also to who cannot see it; it stays while the pointer or the focus is in it. */
export function Toasts({ children }: { readonly children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Toast[]>([])
  const timers = useRef(new Map<number, ReturnType<typeof setTimeout>>())
  const last = useRef(0)

  const remove = useCallback((id: number) => {
    clearTimeout(timers.current.get(id))
    timers.current.delete(id)
    setToasts((known) => known.filter((one) => one.id !== id))
  }, [])
  const stay = useCallback((id: number) => clearTimeout(timers.current.get(id)), [])
  const leave = useCallback(
    (id: number) => {
      stay(id)
      timers.current.set(
        id,
        setTimeout(() => remove(id), shownMs),
      )
    },
    [stay, remove],
  )
  const show = useCallback(
    (closeRequest: ToastWish) => {
      last.current += 1
      const id = last.current
      setToasts((known) => [...known.slice(-3), { ...closeRequest, id, isBusy: false }])
      if (closeRequest.tone !== 'bad') leave(id)
    },
    [leave],
  )
  const undo = async (toast: Toast): Promise<void> => {
    if (!toast.undo || toast.isBusy) return
    stay(toast.id)
    setToasts((known) => known.map((one) => (one.id === toast.id ? { ...one, isBusy: true } : one)))
    try {
      await toast.undo.run()
      show({ text: toast.undo.text })
    } catch (error) {
      show({ text: sentenceOf(error), tone: 'bad' })
    }
    remove(toast.id)
  }
  const value = useMemo(() => show, [show])

  return (
    <Context value={value}>
      {children}
      <section className="toasts" aria-label="What happened" aria-live="polite">
        {toasts.map((toast) => (
          <OneToast key={toast.id} toast={toast} onUndo={undo} onDismiss={remove} onStay={stay} onLeave={leave} />
        ))}
      </section>
    </Context>
  )
}

interface OneToastProps {
  readonly toast: Toast
  readonly onUndo: (toast: Toast) => Promise<void>
  readonly onDismiss: (id: number) => void
  readonly onStay: (id: number) => void
  readonly onLeave: (id: number) => void
}

function OneToast({ toast, onUndo, onDismiss, onStay, onLeave }: OneToastProps) {
  const { id, text, tone, undo, isBusy } = toast
  const box = useFocusHeir<HTMLDivElement>()
  const stay = (): void => onStay(id)
  const leave = (): void => {
    if (tone !== 'bad' && !isBusy) onLeave(id)
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only waits while somebody is in it
    <div
      ref={box}
      className={`toast ${tone === 'bad' ? 'toast--bad' : ''}`}
      onMouseEnter={stay}
      onMouseLeave={leave}
      onFocus={stay}
      onBlur={leave}
    >
      <span className="toast__text">{text}</span>
      {undo && (
        <button type="button" className="button" onClick={() => void onUndo(toast)} aria-disabled={isBusy}>
          {isBusy ? 'Undoing…' : undo.label}
        </button>
      )}
      <button type="button" className="button button--quiet" onClick={() => onDismiss(id)} aria-label="Dismiss">
        ✕
      </button>
    </div>
  )
}
