import { type ReactNode, useEffect, useId, useRef } from 'react'
import { focusHeading } from './focus.ts'

export interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  /** While something is under way it cannot be left by accident. */
  readonly isBusy?: boolean
  readonly isWide?: boolean
  readonly children: ReactNode
}

/** The browser's own: the rest of the page is inert meanwhile, Escape leaves it, and the focus goes back where it was. */
export function Dialog({ title, onClose, isBusy = false, isWide = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const before = document.activeElement
    const shown = dialog.current
    if (shown && !shown.open) shown.showModal()
    return () => {
      shown?.close()
      // React takes the element away, and with it what the browser remembers.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
      else focusHeading()
    }
  }, [])
  return (
    <dialog
      ref={dialog}
      className={`dialog ${isWide ? 'dialog--wide' : ''}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        if (!isBusy) onClose()
      }}
      onClose={({ currentTarget }) => {
        // A browser lets `cancel` be prevented only so often, and closes all the same.
        if (currentTarget.open) return
        if (isBusy) currentTarget.showModal()
        else onClose()
      }}
    >
      <div className="dialog__head">
        <h2 id={titleId}>{title}</h2>
        <button type="button" className="button button--quiet" onClick={onClose} disabled={isBusy} aria-label="Close">
          ✕
        </button>
      </div>
      {children}
    </dialog>
  )
}
