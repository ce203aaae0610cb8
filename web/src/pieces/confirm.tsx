import { type ReactNode, useRef, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { Dialog } from './dialog.tsx'
import { Problem, Progress } from './notes.tsx'
import { useToast } from './toasts.tsx'

export interface ConfirmProps {
  readonly title: string
  /** What it will do, sentence by sentence. */
  readonly does: readonly string[]
  /** What stays. */
  readonly keeps: readonly string[]
  /** Whether it can be undone, in a sentence. */
  readonly undo: string
  /** The word on the button. */
  readonly action: string
  readonly isDangerous?: boolean
  /** What is said while it runs. */
  readonly progress: string
  /** Tells its good end itself, by a toast or in the page: nobody may be here any more to read it. */
  readonly run: () => Promise<void>
  readonly onClose: () => void
  /** Shown instead of the sentence, where a failure has more to say. */
  readonly failure?: (error: unknown) => ReactNode
  readonly children?: ReactNode
  /** What is still missing before it may run. */
  readonly isBlocked?: boolean
}

/**
 * Says exactly what will happen before it happens, what it is doing meanwhile, and why it did not, with another try. What was sent
 * cannot be taken back, but nobody has to wait for it here: who leaves is told of a failure by a toast.
 */
export function Confirm(props: ConfirmProps) {
  const { title, does, keeps, undo, action, isDangerous, progress, run, onClose, failure, children, isBlocked = false } = props
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const hasLeft = useRef(false)
  const toast = useToast()
  const leave = (): void => {
    hasLeft.current = true
    toast({ text: `${progress.replace(/…$/, '')}: it goes on by itself.` })
    onClose()
  }
  const start = async (): Promise<void> => {
    if (isBusy) return
    setBusy(true)
    setError(undefined)
    try {
      await run()
      if (!hasLeft.current) onClose()
    } catch (problem) {
      if (hasLeft.current) toast({ text: `${action}: ${sentenceOf(problem)}`, tone: 'bad' })
      setError(problem)
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose} isBusy={isBusy}>
      <dl className="deed">
        <dt>It will</dt>
        <dd>
          <ul>
            {does.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </dd>
        <dt>It keeps</dt>
        <dd>
          <ul>
            {keeps.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </dd>
        <dt>Undo</dt>
        <dd>{undo}</dd>
      </dl>
      {children}
      <div className="dialog__foot">
        {error !== undefined && (failure?.(error) ?? <Problem>{sentenceOf(error)}</Problem>)}
        {isBusy && <Progress>{progress}</Progress>}
        <button type="button" className="button" onClick={isBusy ? leave : onClose}>
          {isBusy ? 'Leave; it goes on by itself' : 'Cancel'}
        </button>
        <button
          type="button"
          className={`button ${isDangerous ? 'button--danger' : 'button--primary'}`}
          onClick={() => void start()}
          // What is disabled loses the focus.
          aria-disabled={isBusy}
          disabled={isBlocked}
        >
          {error === undefined ? action : 'Try again'}
        </button>
      </div>
    </Dialog>
  )
}
