import { useState } from 'react'
import { sentenceOf } from '../api/client.ts'
import { type Orphan, type ReaperPass, runReaper } from '../api/closes.ts'
import { useLabels } from '../api/labels.tsx'
import { Confirm } from '../pieces/confirm.tsx'
import { oneLine, plural } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'

const reasonTexts: Readonly<Record<string, string>> = {
  'held-back': 'held back or stuck, and due for a retry',
  leak: 'present although its scope is closed',
  unrecorded: 'carries the label of this installation, but is not in the ledger',
  'dead-incarnation': 'its supervisor is dead',
  'unknown-incarnation': 'it is unknown whether its supervisor is alive',
}

/** Runs the reaper: as a dry run that lists what it would release, or for real. */
export function ReaperPanel() {
  const [pass, setPass] = useState<{ readonly result: ReaperPass; readonly isDry: boolean }>()
  const [isBusy, setBusy] = useState(false)
  const [isConfirming, setConfirming] = useState(false)
  const [error, setError] = useState<unknown>()
  const dryRun = async (): Promise<void> => {
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
    <section className="panel" aria-label="Reaper">
      <div className="panel__head reaper__head">
        <h2>Reaper</h2>
        <span className="reaper__actions">
          <button type="button" className="button" onClick={() => void dryRun()} disabled={isBusy}>
            Dry run
          </button>
          <button type="button" className="button" onClick={() => setConfirming(true)} disabled={isBusy}>
            Run now
          </button>
        </span>
      </div>
      <div className="panel__body" role="status">
        {isBusy && <Progress>Running…</Progress>}
        {!pass && !isBusy && (
          <p className="quiet">
            The reaper finds resources that were never closed. It runs every minute unless configured otherwise. It was not started from
            this page yet.
          </p>
        )}
        {pass && <Result {...pass} />}
      </div>
      {error !== undefined && <Problem>{sentenceOf(error)}</Problem>}
      {isConfirming && (
        <Confirm
          title="Run the reaper"
          does={[
            'Find resources that were never closed: held back, stuck, leaked, or left by a supervisor that died',
            'Close each with the same ladder, and verify that it is gone',
          ]}
          keeps={['Running agents', 'Rows, messages and archives', 'Everything without a label of Ebb']}
          undo="Not possible: released resources cannot be restored."
          action="Run the reaper"
          progress="The reaper is running…"
          run={async () => setPass({ result: await runReaper(false), isDry: false })}
          onClose={() => setConfirming(false)}
        />
      )}
    </section>
  )
}

function Result({ result: { found, released, left }, isDry }: { readonly result: ReaperPass; readonly isDry: boolean }) {
  if (found.length === 0) return <p>Nothing to release.</p>
  if (isDry)
    return (
      <>
        <p>The reaper would release {plural(found.length, 'resource')}:</p>
        <Orphans orphans={found} />
      </>
    )
  return (
    <>
      <p>
        The reaper found {plural(found.length, 'resource')}, released {plural(released.length, 'resource')}, and left{' '}
        {plural(left.length, 'resource')}.
      </p>
      <Orphans orphans={left.length > 0 ? left : released} />
    </>
  )
}

function Orphans({ orphans }: { readonly orphans: readonly Orphan[] }) {
  const { kindTitle } = useLabels()
  return (
    <ul>
      {orphans.map(({ kind, name, why: reason, detail }) => (
        <li key={`${kind} ${name}`}>
          <span className="mono">
            {kindTitle(kind)} {oneLine(name, 160)}
          </span>
          : {reasonTexts[reason] ?? reason}
          {detail === '' ? '' : ` (${oneLine(detail, 200)})`}
        </li>
      ))}
    </ul>
  )
}
