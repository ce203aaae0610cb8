import { createContext, type ReactNode, useCallback, useContext, useMemo, useRef, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { useFocusFallback } from './focus.ts'

export interface ToastOptions {
  readonly text: string
  readonly tone?: 'good' | 'bad'
  /** Undoes the action that the toast reports. `text` is shown when the undo has succeeded. */
  readonly undo?: { readonly label: string; readonly run: () => Promise<void>; readonly text: string }
}

interface Toast extends ToastOptions {
  readonly id: number
  readonly isBusy: boolean
}

/** The time for which a toast is shown, long enough to read the toast and to reach Undo. Toasts about failures stay until dismissed. */
const shownMs = 10_000

const Context = createContext<(options: ToastOptions) => void>(() => {})

export function useToast(): (options: ToastOptions) => void {
  return useContext(Context)
}

/** Provides toasts to the page, announced by screen readers. A toast stays while the pointer or the focus is in it. */
export function Toasts({ children }: { readonly children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Toast[]>([])
  const timers = useRef(new Map<number, ReturnType<typeof setTimeout>>())
  const last = useRef(0)

  const remove = useCallback((id: number) => {
    clearTimeout(timers.current.get(id))
    timers.current.delete(id)
    setToasts((known) => known.filter((toast) => toast.id !== id))
  }, [])
  const keepOpen = useCallback((id: number) => clearTimeout(timers.current.get(id)), [])
  const startTimer = useCallback(
    (id: number) => {
      keepOpen(id)
      timers.current.set(
        id,
        setTimeout(() => remove(id), shownMs),
      )
    },
    [keepOpen, remove],
  )
  const show = useCallback(
    (options: ToastOptions) => {
      last.current += 1
      const id = last.current
      setToasts((known) => [...known.slice(-3), { ...options, id, isBusy: false }])
      if (options.tone !== 'bad') startTimer(id)
    },
    [startTimer],
  )
  const undo = async (toast: Toast): Promise<void> => {
    if (!toast.undo || toast.isBusy) return
    keepOpen(toast.id)
    setToasts((known) => known.map((other) => (other.id === toast.id ? { ...other, isBusy: true } : other)))
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
      <section className="toasts" aria-label="Notifications" aria-live="polite">
        {toasts.map((toast) => (
          <ToastBox key={toast.id} toast={toast} onUndo={undo} onDismiss={remove} onStay={keepOpen} onLeave={startTimer} />
        ))}
      </section>
    </Context>
  )
}

interface ToastBoxProps {
  readonly toast: Toast
  readonly onUndo: (toast: Toast) => Promise<void>
  readonly onDismiss: (id: number) => void
  readonly onStay: (id: number) => void
  readonly onLeave: (id: number) => void
}

function ToastBox({ toast, onUndo, onDismiss, onStay, onLeave }: ToastBoxProps) {
  const { id, text, tone, undo, isBusy } = toast
  const box = useFocusFallback<HTMLDivElement>()
  const keepOpen = (): void => onStay(id)
  const startTimer = (): void => {
    if (tone !== 'bad' && !isBusy) onLeave(id)
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the handlers only pause the timer
    <div
      ref={box}
      className={`toast ${tone === 'bad' ? 'toast--bad' : ''}`}
      onMouseEnter={keepOpen}
      onMouseLeave={startTimer}
      onFocus={keepOpen}
      onBlur={startTimer}
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
