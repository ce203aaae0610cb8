import type { ReactNode } from 'react'

/** An error as a sentence, with an optional retry button. Focusable by script. */
export function Problem({ children, onRetry }: { readonly children: ReactNode; readonly onRetry?: () => void }) {
  return (
    <div className="note note--bad" role="alert" tabIndex={-1}>
      <div>{children}</div>
      {onRetry && (
        <button type="button" className="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** A progress indicator with a text. */
export function Progress({ children }: { readonly children: ReactNode }) {
  return (
    <output className="progress">
      <span className="progress__wave" aria-hidden="true" />
      {children}
    </output>
  )
}

/** An empty state: a title, and what the user can do. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <svg className="empty__tide" viewBox="0 0 240 40" aria-hidden="true" focusable="false">
        <path d="M0 18c20-16 40-16 60 0s40 16 60 0 40-16 60 0 40 16 60 0" />
        <path d="M20 32c15-10 30-10 45 0s30 10 45 0 30-10 45 0 30 10 45 0" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  )
}
