import { useState, useSyncExternalStore } from 'react'
import { draftNoteOf, draftOf } from '../agents/draft.ts'
import { LaunchDialog } from '../agents/launch.tsx'
import { settingsOf } from '../agents/use-launch.ts'
import { deleteAgent, stopAgent } from '../api/calls.ts'
import { ApiError, sentenceOf } from '../api/client.ts'
import type { Agent, Report } from '../api/shapes.ts'
import { Confirm } from '../pieces/confirm.tsx'
import { useFocusFallback } from '../pieces/focus.ts'
import { duration, plural } from '../pieces/format.ts'
import { LeftOvers } from '../pieces/left-overs.tsx'
import { Problem } from '../pieces/notes.tsx'
import { useToast } from '../pieces/toasts.tsx'
import { hrefOfList } from '../routing.ts'
import type { Conversation } from './store.ts'

interface ActionsProps {
  readonly agent: Agent
  readonly isEnded: boolean
  readonly conversation: Conversation
  readonly onChange: () => void
  readonly onDeleting: (isDeleting: boolean) => void
}

type Action = 'stop' | 'force' | 'delete' | 'relaunch'

/** The actions on one agent. Each dialog says what the action does, what it keeps, and whether it can be undone. */
export function Actions({ agent, isEnded, conversation, onChange, onDeleting }: ActionsProps) {
  const [action, setAction] = useState<Action>()
  const toast = useToast()
  const close = (): void => {
    setAction(undefined)
    onChange()
  }
  const stop = async (force: boolean): Promise<void> => {
    const report = await stopAgent(agent.id, force)
    requireReleased(report)
    toast({ text: `Stopped in ${duration(report.duration)}: ${plural(report.resources.length, 'resource')} verified gone.` })
  }
  // The live message count is used, because the agent's row lags behind the live messages.
  const messages = plural(
    useSyncExternalStore(conversation.subscribe, () => conversation.total),
    'message',
  )
  const settings = settingsOf(agent.id)
  return (
    <>
      {!isEnded && <StopButtons onChoose={setAction} />}
      {isEnded && (
        <button type="button" className="button" onClick={() => setAction('relaunch')}>
          Launch again
        </button>
      )}
      <button type="button" className="button" onClick={() => setAction('delete')}>
        Delete
      </button>
      {action === 'stop' && (
        <Confirm
          title="Stop this agent?"
          does={[
            'Ask the agent to stop, then terminate it. Both steps share 5 seconds; then every remaining process is killed.',
            'Archive its log.',
            'Check that all its processes, sessions and temporary files are gone before reporting it as stopped.',
          ]}
          keeps={[`The agent in the list, its ${messages}, and its archived log.`]}
          undo={'Not possible: a stopped agent cannot be resumed. "Launch again" opens the launch form with its settings.'}
          action="Stop agent"
          progress="Stopping, and checking that everything is gone"
          run={() => stop(false)}
          onClose={close}
          failure={leftOvers}
        />
      )}
      {action === 'force' && (
        <Confirm
          title="Stop this agent by force?"
          does={[
            'Kill all its processes at once, without asking first. Unsaved work is lost.',
            'Try for up to 10 seconds to archive its log. A log that cannot be archived is given up, and the report names it.',
            'Check that everything is gone before reporting it as stopped.',
          ]}
          keeps={[`The agent in the list and its ${messages}.`]}
          undo={'Not possible: a stopped agent cannot be resumed. "Launch again" opens the launch form with its settings.'}
          action="Force stop"
          isDangerous
          progress="Killing, and checking that everything is gone"
          run={() => stop(true)}
          onClose={close}
          failure={leftOvers}
        />
      )}
      {action === 'delete' && (
        <Confirm
          title="Delete this agent?"
          does={[
            ...(isEnded ? [] : ['Stop the agent first: ask, terminate, kill, and check that everything is gone.']),
            `Delete it from the list, with its ${messages}, its log and its archive.`,
          ]}
          keeps={['The entry in the cleanup history, with the proof that everything is gone.']}
          undo="Not possible: a deleted agent cannot be restored."
          action="Delete agent"
          isDangerous
          progress="Deleting, and checking that everything is gone"
          run={async () => {
            onDeleting(true)
            await deleteAgent(agent.id).catch((error: unknown) => {
              onDeleting(false)
              throw error
            })
            toast({ text: 'Deleted. Nothing of the agent is left.' })
            // Navigate to the list only if the user is still on this agent's page.
            if (window.location.hash.includes(agent.id)) window.location.hash = hrefOfList('agents')
          }}
          onClose={close}
          failure={leftOvers}
        />
      )}
      {action === 'relaunch' && (
        <LaunchDialog draft={draftOf(agent, settings)} note={draftNoteOf(settings)} onClose={() => setAction(undefined)} />
      )}
    </>
  )
}

/**
 * The stop buttons, shown until the agent has ended. They disappear without user action, so the keyboard focus then moves to the heading.
 */
function StopButtons({ onChoose }: { readonly onChoose: (action: Action) => void }) {
  const buttons = useFocusFallback<HTMLDivElement>()
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
  throw new ApiError('Not everything could be released in time.', { status: 409, code: 'not_released', details: report })
}

/** Lists each resource that is left if the error carries a report; otherwise shows the error. */
function leftOvers(error: unknown) {
  const report = error instanceof ApiError && error.code === 'not_released' ? (error.details as Partial<Report> | undefined) : undefined
  const left = report?.resources?.filter(({ outcome }) => outcome === 'stuck' || outcome === 'held-back') ?? []
  if (left.length === 0) return <Problem>{sentenceOf(error)}</Problem>
  return (
    <Problem>
      Some resources are not gone. They stay recorded in the ledger, and Ebb retries them automatically:
      <LeftOvers left={left} />
    </Problem>
  )
}
