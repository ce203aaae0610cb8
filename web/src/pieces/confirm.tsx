import { type ReactNode, useRef, useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { Dialog } from './dialog.tsx'
import { Problem, Progress } from './notes.tsx'
import { useToast } from './toasts.tsx'

export interface ConfirmProps {
  readonly title: string
  /** The effects of the action, one sentence per entry. */
  readonly does: readonly string[]
  /** The data that the action keeps, one sentence per entry. */
  readonly keeps: readonly string[]
  /** Whether the action can be undone, in a sentence. */
  readonly undo: string
  /** The label of the button that performs the action. */
  readonly action: string
  readonly isDangerous?: boolean
  /** The text that is shown while the action runs. */
  readonly progress: string
  /** Performs the action. It reports its success itself, as a toast or in the page: the dialog may be closed by then. */
  readonly run: () => Promise<void>
  readonly onClose: () => void
  /** Renders an error of the action. Default: the error as a plain sentence. */
  readonly failure?: (error: unknown) => ReactNode
  readonly children?: ReactNode
  /** Disables the button of the action, while a required input is missing. */
  readonly isBlocked?: boolean
}

/**
 * A confirmation dialog. It says what the action will do, shows its progress, and shows an error with a retry button. A running
 * action cannot be cancelled, but the user can close the dialog; a later failure is then shown as a toast.
 */
export function Confirm(props: ConfirmProps) {
  const { title, does, keeps, undo, action, isDangerous, progress, run, onClose, failure, children, isBlocked = false } = props
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const hasLeft = useRef(false)
  const toast = useToast()
  const leave = (): void => {
    hasLeft.current = true
    toast({ text: `${progress.replace(/…$/, '')}: continues in the background.` })
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
      <dl className="effects">
        <dt>This will</dt>
        <dd>
          <ul>
            {does.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </dd>
        <dt>This keeps</dt>
        <dd>
          <ul>
            {keeps.map((sentence) => (
              <li key={sentence}>{sentence}</li>
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
          {isBusy ? 'Continue in background' : 'Cancel'}
        </button>
        <button
          type="button"
          className={`button ${isDangerous ? 'button--danger' : 'button--primary'}`}
          onClick={() => void start()}
          // `aria-disabled` instead of `disabled`: a disabled button loses the keyboard focus.
          aria-disabled={isBusy}
          disabled={isBlocked}
        >
          {error === undefined ? action : 'Try again'}
        </button>
      </div>
    </Dialog>
  )
}
