import { type ReactNode, useEffect, useRef } from 'react'
import { cameByNavigation } from '../routing.ts'

export interface ViewHeadProps {
  readonly title: string
  /** Of the browser's tab, where it says more than the heading. */
  readonly documentTitle?: string
  readonly children?: ReactNode
  readonly above?: ReactNode
}

/** The heading of a view. Who comes to it finds the focus there, so that a screen reader says where one is. */
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
      <div className="view-head__words">
        {above}
        <h1 ref={heading} tabIndex={-1}>
          <bdi>{title}</bdi>
        </h1>
      </div>
      {children !== undefined && <div className="view-head__actions">{children}</div>}
    </header>
  )
}
