import { type FormEvent, useEffect, useId, useRef, useState } from 'react'
import { fetchProviders } from '../api/calls.ts'
import { useLabels } from '../api/labels.tsx'
import { useLoaded } from '../api/loaded.ts'
import type { Provider } from '../api/shapes.ts'
import { Dialog } from '../pieces/dialog.tsx'
import { Field } from '../pieces/field.tsx'
import { Problem, Progress } from '../pieces/notes.tsx'
import { bodyOf, type Draft, type DraftField, emptyDraft, pathOf, placementOptions, problemsOf } from './draft.ts'
import { type Refusal, useLaunch } from './use-launch.ts'
import { wordsOf } from './words.ts'

interface LaunchDialogProps {
  readonly onClose: () => void
  readonly draft?: Draft
  /** A text shown above the form. */
  readonly note?: string
}

/** The form contents when the dialog was left by Escape. They are restored when it is opened again. */
let unfinished: Draft | undefined

/** The launch form. Errors are shown beside the field that they are about. */
export function LaunchDialog({ onClose, draft: given, note }: LaunchDialogProps) {
  const providers = useLoaded('providers', fetchProviders)
  const { placements } = useLabels()
  const launch = useLaunch()
  const [draft, setDraft] = useState(given ?? unfinished ?? emptyDraft)
  const [isBusy, setBusy] = useState(false)
  const [hasTried, setTried] = useState(false)
  const [refusal, setRefusal] = useState<Refusal>()
  const hasLeft = useRef(false)
  const form = useRef<HTMLFormElement>(null)
  const foot = useRef<HTMLDivElement>(null)
  const formId = useId()
  const provider = providers.data?.find(({ type }) => type === draft.type)
  const inputs = provider?.inputs ?? []
  const ownProblems = hasTried ? problemsOf(draft, inputs) : new Map<DraftField, string>()
  const problemOf = (field: DraftField): string | undefined => ownProblems.get(field) ?? serverProblem(refusal, pathOf[field])
  const set = (field: DraftField) => (value: string) => {
    setDraft((known) => ({ ...known, [field]: value }))
    setRefusal(undefined)
  }
  useEffect(() => {
    if (refusal) (invalidField(form.current) ?? foot.current?.querySelector<HTMLElement>('[role="alert"]'))?.focus()
  }, [refusal])
  const canLaunch = !isBusy && providers.data !== undefined
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault()
    if (!canLaunch) return
    setTried(true)
    setRefusal(undefined)
    if (problemsOf(draft, inputs).size > 0) {
      requestAnimationFrame(() => invalidField(form.current)?.focus())
      return
    }
    setBusy(true)
    const failure = await launch(bodyOf(draft, inputs), () => hasLeft.current)
    setBusy(false)
    // The refused draft is kept before `hasLeft` is checked, because it is kept even if the user has left the page by its address.
    if (given === undefined) unfinished = failure && draft
    if (hasLeft.current) return
    if (failure) setRefusal(failure)
    else onClose()
  }
  const keep = (): void => {
    if (given === undefined) unfinished = draft
    onClose()
  }
  const cancel = (): void => {
    if (given === undefined) unfinished = undefined
    onClose()
  }
  const leave = (): void => {
    hasLeft.current = true
    keep()
  }
  const words = wordsOf(draft.command)
  const isDefault = placements.find(({ name }) => name === draft.placement)?.isDefault
  return (
    <Dialog title="Launch an agent" onClose={keep} isBusy={isBusy} isWide>
      <form ref={form} id={formId} className="launch" onSubmit={(event) => void submit(event)} noValidate>
        {note !== undefined && <p className="quiet">{note}</p>}
        {providers.sentence !== undefined && <Problem onRetry={providers.reload}>{providers.sentence}</Problem>}
        {providers.data ? (
          <Providers providers={providers.data} value={draft.type} onChange={set('type')} problem={problemOf('type')} />
        ) : (
          providers.sentence === undefined && <Progress>Checking which agents are installed</Progress>
        )}
        {inputs.includes('command') && (
          <Field
            label="Command"
            hint={
              words && words.length > 0
                ? `Runs ${JSON.stringify(words)}`
                : 'A program and its arguments. Quote arguments that contain spaces.'
            }
            problem={problemOf('command')}
          >
            {(props) => (
              <input
                {...props}
                className="mono"
                spellCheck={false}
                value={draft.command}
                onChange={(event) => set('command')(event.target.value)}
                placeholder="npm run build"
              />
            )}
          </Field>
        )}
        <Field
          label="Prompt"
          hint={inputs.includes('command') ? 'Sent to the standard input of the command. May be empty.' : undefined}
          problem={problemOf('prompt')}
        >
          {(props) => <textarea {...props} rows={4} value={draft.prompt} onChange={(event) => set('prompt')(event.target.value)} />}
        </Field>
        <div className="launch__pair">
          <Field label="Placement" hint="Where the agent runs." problem={problemOf('placement')}>
            {(props) => (
              <select {...props} value={isDefault ? '' : draft.placement} onChange={(event) => set('placement')(event.target.value)}>
                {placementOptions(placements, draft.placement).map(({ value, text }) => (
                  <option key={value} value={value}>
                    {text}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Working directory" hint="A path on the server machine." problem={problemOf('workingDirectory')}>
            {(props) => (
              <input
                {...props}
                className="mono"
                spellCheck={false}
                value={draft.workingDirectory}
                onChange={(event) => set('workingDirectory')(event.target.value)}
                placeholder="the server's working directory"
              />
            )}
          </Field>
          {(provider?.models.length ?? 0) > 0 && (
            <Field label="Model" hint="Empty: the default of the provider." problem={problemOf('model')}>
              {(props) => (
                <>
                  <input {...props} list={`${formId}-models`} value={draft.model} onChange={(event) => set('model')(event.target.value)} />
                  <datalist id={`${formId}-models`}>
                    {provider?.models.map(({ id, name }) => (
                      <option key={id} value={id}>
                        {name}
                      </option>
                    ))}
                  </datalist>
                </>
              )}
            </Field>
          )}
          <Field label="Name" hint="Shown in lists." problem={problemOf('name')}>
            {(props) => <input {...props} value={draft.name} onChange={(event) => set('name')(event.target.value)} />}
          </Field>
          <Field label="Request id" hint="The agent ends when this request ends." problem={problemOf('requestId')}>
            {(props) => <input {...props} value={draft.requestId} onChange={(event) => set('requestId')(event.target.value)} />}
          </Field>
          <Field label="Namespace" hint="Empty: default." problem={problemOf('namespace')}>
            {(props) => <input {...props} value={draft.namespace} onChange={(event) => set('namespace')(event.target.value)} />}
          </Field>
        </div>
        {inputs.includes('schedule') && (
          <Field
            label="Schedule"
            hint="What the agent writes and when, in milliseconds from the start. Empty: three short lines."
            problem={problemOf('schedule')}
          >
            {(props) => (
              <textarea
                {...props}
                className="mono"
                rows={7}
                spellCheck={false}
                value={draft.schedule}
                onChange={(event) => set('schedule')(event.target.value)}
              />
            )}
          </Field>
        )}
      </form>
      <div ref={foot} className="dialog__foot">
        {refusal && <Problem>{refusal.message}</Problem>}
        {isBusy && <Progress>Launching</Progress>}
        <button type="button" className="button" onClick={isBusy ? leave : cancel}>
          {isBusy ? 'Continue in background' : 'Cancel'}
        </button>
        <button type="submit" form={formId} className="button button--primary" aria-disabled={!canLaunch}>
          Launch
        </button>
      </div>
    </Dialog>
  )
}

function invalidField(form: HTMLFormElement | null): HTMLElement | null | undefined {
  return form?.querySelector<HTMLElement>('[aria-invalid="true"]')
}

/** The server's error message about a field or a part of it. */
function serverProblem(refusal: Refusal | undefined, path: string): string | undefined {
  if (!refusal) return undefined
  for (const [field, message] of refusal.fields) if (field === path || field.startsWith(`${path}.`)) return message
  return undefined
}

function availableFirst(a: Provider, b: Provider): number {
  return Number(b.isAvailable) - Number(a.isAvailable)
}

interface ProvidersProps {
  readonly providers: readonly Provider[]
  readonly value: string
  readonly onChange: (type: string) => void
  readonly problem: string | undefined
}

function Providers({ providers, value, onChange, problem }: ProvidersProps) {
  const problemId = useId()
  return (
    <fieldset className="providers" aria-describedby={problem === undefined ? undefined : problemId}>
      <legend className="field__label">What to launch</legend>
      <div className="providers__grid">
        {[...providers].sort(availableFirst).map(({ type, name, description, isAvailable, version }) => (
          <label key={type} className={`provider ${isAvailable ? '' : 'provider--off'}`}>
            <input
              type="radio"
              name="provider"
              value={type}
              checked={value === type}
              disabled={!isAvailable}
              aria-invalid={problem !== undefined}
              onChange={() => onChange(type)}
            />
            <span className="provider__text">
              <span className="provider__name">
                {name} {version !== undefined && <span className="quiet">{version}</span>}
              </span>
              <span className="field__hint">
                {isAvailable ? description : 'Not installed: the program is not on the PATH of the server.'}
              </span>
            </span>
          </label>
        ))}
      </div>
      {problem !== undefined && (
        <span className="field__problem" id={problemId}>
          {problem}
        </span>
      )}
    </fieldset>
  )
}
