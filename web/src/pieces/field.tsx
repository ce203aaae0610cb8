import { type ReactNode, useId } from 'react'

export interface FieldControl {
  readonly id: string
  readonly 'aria-invalid': boolean
  readonly 'aria-describedby': string | undefined
}

export interface FieldProps {
  readonly label: string
  readonly hint?: string | undefined
  readonly problem?: string | undefined
  /** Renders the control with the given id and aria attributes, which link it to its label, hint and problem. */
  readonly children: (control: FieldControl) => ReactNode
}

/** A labelled control with its hint and its validation error. */
export function Field({ label, hint, problem, children }: FieldProps) {
  const id = useId()
  const described = [hint !== undefined && `${id}-hint`, problem !== undefined && `${id}-problem`].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label className="field__label" htmlFor={id}>
        {label}
      </label>
      {children({ id, 'aria-invalid': problem !== undefined, 'aria-describedby': described === '' ? undefined : described })}
      {hint !== undefined && (
        <span className="field__hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {problem !== undefined && (
        <span className="field__problem" id={`${id}-problem`}>
          {problem}
        </span>
      )}
    </div>
  )
}
