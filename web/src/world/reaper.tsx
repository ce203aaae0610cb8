import { useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { type Orphan, type ReaperPass, runReaper } from '../api/closes.ts'
import { Confirm } from '../pieces/confirm.tsx'
import { oneLine, plural } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'

const whyWords: Readonly<Record<string, string>> = {
  'held-back': 'held back or stuck, and due for another try',
  leak: 'there, though its scope is closed',
  unrecorded: 'carries our mark, and is on nobody’s books',
  'dead-incarnation': 'its supervisor is dead',
  'unknown-incarnation': 'nobody can say whether its supervisor lives',
}

/** The pass that finds what nobody closed: first what it would take, then, if one likes, that it does. */
export function ReaperPanel() {
  const [pass, setPass] = useState<{ readonly result: ReaperPass; readonly isDry: boolean }>()
  const [isBusy, setBusy] = useState(false)
  const [isAsked, setAsked] = useState(false)
  const [error, setError] = useState<unknown>()
  const look = async (): Promise<void> => {
    setBusy(true)
    setError(undefined)
    try {
      setPass({ result: await runReaper(true), isDry: true })
    } catch (problem) {
      setError(problem)
    }
    setBusy(false)
  }
  return (
    <section className="panel" aria-label="The reaper">
      <div className="panel__head reaper__head">
        <h2>The reaper</h2>
        <span className="reaper__actions">
          <button type="button" className="button" onClick={() => void look()} disabled={isBusy}>
            What would it take?
          </button>
          <button type="button" className="button" onClick={() => setAsked(true)} disabled={isBusy}>
            Run it now
          </button>
        </span>
      </div>
      <div className="panel__body" role="status">
        {isBusy && <Progress>Looking…</Progress>}
        {!pass && !isBusy && (
          <p className="quiet">It looks for what nobody closed, every minute unless it is set otherwise. It has not been asked here yet.</p>
        )}
        {pass && <Result {...pass} />}
      </div>
      {error !== undefined && <Problem>{sentenceOf(error)}</Problem>}
      {isAsked && (
        <Confirm
          title="Run the reaper"
          does={[
            'Look for what nobody closed: what is held back, stuck, leaked, or of a supervisor that died',
            'Close each by the same ladder, and prove it',
          ]}
          keeps={['Agents that are at work', 'Rows, messages and archives', 'Whatever is not marked as ours']}
          undo="What it takes away cannot be had back; it was to be gone."
          action="Run the reaper"
          progress="The reaper is looking…"
          run={async () => setPass({ result: await runReaper(false), isDry: false })}
          onClose={() => setAsked(false)}
        />
      )}
    </section>
  )
}

function Result({ result: { found, released, left }, isDry }: { readonly result: ReaperPass; readonly isDry: boolean }) {
  if (found.length === 0) return <p>There is nothing for it to take.</p>
  if (isDry)
    return (
      <>
        <p>It would take {plural(found.length, 'thing')}:</p>
        <Orphans orphans={found} />
      </>
    )
  return (
    <>
      <p>
        It found {plural(found.length, 'thing')}, released {plural(released.length, 'thing')}, and left {plural(left.length, 'thing')}.
      </p>
      <Orphans orphans={left.length > 0 ? left : released} />
    </>
  )
}

function Orphans({ orphans }: { readonly orphans: readonly Orphan[] }) {
  return (
    <ul>
      {orphans.map(({ kind, name, why, detail }) => (
        <li key={`${kind} ${name}`}>
          <span className="mono">
            {kind} {oneLine(name, 160)}
          </span>
          : {whyWords[why] ?? why}
          {detail === '' ? '' : ` (${oneLine(detail, 200)})`}
        </li>
      ))}
    </ul>
  )
}
