import { useState, useSyncExternalStore } from 'react'
import { draftOf, keptOf } from '../agents/draft.ts'
import { LaunchDialog } from '../agents/launch.tsx'
import { settingsOf } from '../agents/use-launch.ts'
import { deleteAgent, stopAgent } from '../api/calls.ts'
import { ApiError, sentenceOf } from '../api/client.ts'
import type { Agent, Report } from '../api/shapes.ts'
import { Confirm } from '../pieces/confirm.tsx'
import { useFocusHeir } from '../pieces/focus.ts'
import { duration, plural } from '../pieces/format.ts'
import { LeftOvers } from '../pieces/left-overs.tsx'
import { Problem } from '../pieces/notes.tsx'
import { useToast } from '../pieces/toasts.tsx'
import { hrefOfList } from '../routing.ts'
import type { Conversation } from './store.ts'

interface ActionsProps {
  readonly agent: Agent
  readonly isOver: boolean
  readonly conversation: Conversation
  readonly onChange: () => void
  readonly onDeleting: (isDeleting: boolean) => void
}

type Deed = 'stop' | 'force' | 'delete' | 'again'

/** What can be done with it, each with what it will do, what it keeps, and whether there is a way back. */
export function Actions({ agent, isOver, conversation, onChange, onDeleting }: ActionsProps) {
  const [deed, setDeed] = useState<Deed>()
  const toast = useToast()
  const close = (): void => {
    setDeed(undefined)
    onChange()
  }
  const stop = async (force: boolean): Promise<void> => {
    const report = await stopAgent(agent.id, force)
    requireReleased(report)
    toast({ text: `Stopped in ${duration(report.duration)}; ${plural(report.resources.length, 'resource')} seen gone.` })
  }
  // The agent's row is older than what has been said since.
  const messages = plural(
    useSyncExternalStore(conversation.subscribe, () => conversation.total),
    'message',
  )
  const settings = settingsOf(agent.id)
  return (
    <>
      {!isOver && <Stops onChoose={setDeed} />}
      {isOver && (
        <button type="button" className="button" onClick={() => setDeed('again')}>
          Launch again
        </button>
      )}
      <button type="button" className="button" onClick={() => setDeed('delete')}>
        Delete
      </button>
      {deed === 'stop' && (
        <Confirm
          title="Stop this agent?"
          does={[
            'Ask it to stop, then terminate it. It has 5 seconds for both; what is still there then is killed.',
            'Archive its log.',
            'Look that every process, session and temporary file of it is gone, and say so only then.',
          ]}
          keeps={[`The agent in the list, its ${messages}, and its archived log.`]}
          undo={'No: a stopped agent does not go on. "Launch again" fills the form for a new one.'}
          action="Stop it"
          progress="Stopping, and looking that it is gone"
          run={() => stop(false)}
          onClose={close}
          failure={leftOvers}
        />
      )}
      {deed === 'force' && (
        <Confirm
          title="Stop this agent by force?"
          does={[
            'Kill all its processes at once, without asking: what it has not saved is lost.',
            'Try to archive its log for up to 10 seconds; what cannot be archived is given up, and named in the report.',
            'Look that everything of it is gone, and say so only then.',
          ]}
          keeps={[`The agent in the list and its ${messages}.`]}
          undo={'No: a stopped agent does not go on. "Launch again" fills the form for a new one.'}
          action="Force stop"
          isDangerous
          progress="Killing, and looking that it is gone"
          run={() => stop(true)}
          onClose={close}
          failure={leftOvers}
        />
      )}
      {deed === 'delete' && (
        <Confirm
          title="Delete this agent?"
          does={[
            ...(isOver ? [] : ['Stop it first: ask, terminate, kill, and look that it is gone.']),
            `Delete it from the list, with its ${messages}, its log and its archive.`,
          ]}
          keeps={['The entry in the cleanup history, as the proof that it is gone.']}
          undo="No: what is deleted is gone."
          action="Delete it"
          isDangerous
          progress="Deleting, and looking that it is gone"
          run={async () => {
            onDeleting(true)
            await deleteAgent(agent.id).catch((error: unknown) => {
              onDeleting(false)
              throw error
            })
            toast({ text: 'Deleted; nothing of it is left.' })
            // Who has left meanwhile is not fetched back.
            if (window.location.hash.includes(agent.id)) window.location.hash = hrefOfList('agents')
          }}
          onClose={close}
          failure={leftOvers}
        />
      )}
      {deed === 'again' && (
        <LaunchDialog draft={draftOf(agent, settings)} note={keptOf(agent, settings)} onClose={() => setDeed(undefined)} />
      )}
    </>
  )
}

/** There while it lives, and gone by themselves when it is over. */
function Stops({ onChoose }: { readonly onChoose: (deed: Deed) => void }) {
  const buttons = useFocusHeir<HTMLDivElement>()
  return (
    <div ref={buttons} className="view-head__actions">
      <button type="button" className="button" onClick={() => onChoose('stop')}>
        Stop
      </button>
      <button type="button" className="button" onClick={() => onChoose('force')}>
        Force stop
      </button>
    </div>
  )
}

function requireReleased(report: Report): void {
  if (report.success) return
  throw new ApiError('It could not be released in time.', { status: 409, code: 'not_released', details: report })
}

/** A refusal with a report says what is left, thing by thing. */
function leftOvers(error: unknown) {
  const report = error instanceof ApiError && error.code === 'not_released' ? (error.details as Partial<Report> | undefined) : undefined
  const left = report?.resources?.filter(({ outcome }) => outcome === 'stuck' || outcome === 'held-back') ?? []
  if (left.length === 0) return <Problem>{sentenceOf(error)}</Problem>
  return (
    <Problem>
      Not everything is gone. What is left stays on the books, and Ebb tries it again by itself:
      <LeftOvers left={left} />
    </Problem>
  )
}
