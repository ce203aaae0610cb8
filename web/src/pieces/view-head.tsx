import { type ReactNode, useEffect, useRef } from 'react'
import { cameByNavigation } from '../routing.ts'

export interface ViewHeadProps {
  readonly title: string
  /** The title of the browser tab, if it differs from the heading. */
  readonly documentTitle?: string
  readonly children?: ReactNode
  readonly above?: ReactNode
}

/** The heading of a view. It gets the focus after a navigation, so that a screen reader announces the new view. */
export function ViewHead({ title, documentTitle = title, above, children }: ViewHeadProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${documentTitle} · Ebb`
  }, [documentTitle])
  useEffect(() => {
    if (cameByNavigation()) heading.current?.focus()
  }, [])
  return (
    <header className="view-head">
      <div className="view-head__titles">
        {above}
        <h1 ref={heading} tabIndex={-1}>
          <bdi>{title}</bdi>
        </h1>
      </div>
      {children !== undefined && <div className="view-head__actions">{children}</div>}
    </header>
  )
}
