import { useState } from 'react'
import { nameOf } from '../agents/names.ts'
import { fetchAgent } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
import { useLabels } from '../api/labels.tsx'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import { type Agent, isFinal } from '../api/shapes.ts'
import { Age, Lasting } from '../pieces/age.tsx'
import { StatusBadge } from '../pieces/badge.tsx'
import { oneLine, shortId } from '../pieces/format.ts'
import { Empty, Problem, Progress } from '../pieces/notes.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { hrefOf, hrefOfList } from '../routing.ts'
import { Actions } from './actions.tsx'
import { ConversationPanel } from './conversation.tsx'
import { isOf, Processes } from './processes.tsx'
import { Resources } from './resources.tsx'
import { useConversation } from './use-conversation.ts'

/** The page of one agent: its conversation, its processes, its resources, and the proof that they are gone. */
export function AgentView({ id }: { readonly id: string }) {
  // While a deletion runs, nothing is loaded: the requests could reach the server after the agent is gone.
  const [isDeleting, setDeleting] = useState(false)
  const [isDeleted, setDeleted] = useState(false)
  useLive<{ agentId: string }>('agent:deleted', ({ agentId }) => {
    if (agentId === id) setDeleted(true)
  })
  const isPaused = isDeleting || isDeleted
  const {
    data: agent,
    error,
    sentence,
    reload,
  } = useLoaded(`agent ${id}`, (signal) => fetchAgent(id, signal), {
    on: ['agent:updated', 'agent:terminated'],
    fits: isOf(id),
    isPaused,
  })
  if (isDeleted && !isDeleting) return <MissingAgent id={id} reason="deleted" />
  if (error instanceof ApiError && error.status === 404) return <MissingAgent id={id} reason="unknown" />
  if (error instanceof ApiError && error.status === 400) return <MissingAgent id={id} reason="malformed" />
  if (!agent)
    return (
      <>
        <ViewHead title={`Agent ${shortId(id)}`} />
        {sentence === undefined ? <Progress>Loading the agent</Progress> : <Problem onRetry={reload}>{sentence}</Problem>}
      </>
    )
  return <LoadedAgent agent={agent} sentence={sentence} reload={reload} isPaused={isPaused} onDeleting={setDeleting} />
}

interface LoadedAgentProps {
  readonly agent: Agent
  /** The error of the last load, if it failed: the data shown may be outdated. */
  readonly sentence: string | undefined
  readonly reload: () => void
  readonly isPaused: boolean
  readonly onDeleting: (isDeleting: boolean) => void
}

function LoadedAgent({ agent, sentence, reload, isPaused, onDeleting }: LoadedAgentProps) {
  const { id } = agent
  const conversation = useConversation(id, agent.session.messageCount)
  const isActive = !isFinal(agent.status)
  return (
    <>
      <ViewHead title={nameOf(agent, 90)} documentTitle={`${nameOf(agent, 40)} · ${agent.status}`} above={<Back />}>
        <Actions agent={agent} isEnded={!isActive} conversation={conversation} onChange={reload} onDeleting={onDeleting} />
      </ViewHead>
      {sentence !== undefined && <Problem onRetry={reload}>{sentence}</Problem>}
      <Facts agent={agent} />
      {agent.error && (
        <div className="note note--bad">
          <div>
            {oneLine(agent.error.message, 1_000)} <span className="mono">({oneLine(agent.error.name, 60)})</span>
          </div>
        </div>
      )}
      <div className="agent-parts">
        <ConversationPanel agentId={id} conversation={conversation} />
        <div className="agent-parts__side">
          <Processes agent={agent} isPaused={isPaused} />
          <Resources agentId={id} isActive={isActive} isPaused={isPaused} />
        </div>
      </div>
    </>
  )
}

function Back() {
  return (
    <a className="back" href={hrefOfList('agents')}>
      ← Agents
    </a>
  )
}

function Facts({ agent }: { readonly agent: Agent }) {
  const { placementTitle } = useLabels()
  const { status, type, placement, namespace, requestId, taskId, createdAt, startedAt, completedAt, exitCode, signal, session } = agent
  const { workingDirectory, model } = session.configuration
  const facts: readonly (readonly [string, React.ReactNode])[] = [
    ['Status', <StatusBadge key="status" status={status} />],
    ['Provider', model === undefined ? type : `${type}, ${oneLine(model, 60)}`],
    ['Placement', placementTitle(placement)],
    ['Age', <Age key="age" at={createdAt} />],
    // A stuck agent has no end time yet, but may have no running process either, so no duration is shown.
    ...(status === 'stuck' && completedAt === undefined
      ? []
      : [
          [
            completedAt === undefined ? 'Runs for' : 'Ran for',
            <Lasting key="ran" from={startedAt ?? createdAt} until={completedAt} />,
          ] as const,
        ]),
    ...(exitCode === undefined && signal === undefined ? [] : [['Exit', signal === undefined ? `code ${exitCode}` : signal] as const]),
    ...(namespace === 'default' ? [] : [['Namespace', namespace] as const]),
    ...(requestId === undefined ? [] : [['Request', oneLine(requestId, 80)] as const]),
    ...(taskId === undefined ? [] : [['Task', oneLine(taskId, 80)] as const]),
    ...(workingDirectory === undefined
      ? []
      : [
          [
            'Directory',
            <bdi key="cwd" className="mono">
              {oneLine(workingDirectory, 120)}
            </bdi>,
          ] as const,
        ]),
    ...(agent.name === undefined ? [] : [['Name', oneLine(agent.name, 80)] as const]),
    [
      'Id',
      <span key="id" className="mono">
        {agent.id}
      </span>,
    ],
  ]
  return (
    <dl className="agent-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

const missingTexts = {
  deleted: { title: 'This agent was deleted.', text: 'The cleanup history holds the proof that it is gone.' },
  unknown: {
    title: 'This agent was not found.',
    text: 'If it was deleted, the cleanup history holds the proof that it is gone.',
  },
  malformed: {
    title: 'This is not a valid agent id.',
    text: 'A valid id looks like 6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11; part of this one may be missing.',
  },
} as const

function MissingAgent({ id, reason }: { readonly id: string; readonly reason: keyof typeof missingTexts }) {
  const { title, text } = missingTexts[reason]
  return (
    <>
      <ViewHead title={`Agent ${shortId(id)}`} above={<Back />} />
      <Empty title={title}>
        <p>{text}</p>
        <p>
          {reason === 'malformed' ? (
            <a href={hrefOf('agents')}>Go to the agents</a>
          ) : (
            <a href={hrefOf('cleanup')}>Go to the cleanup history</a>
          )}
        </p>
      </Empty>
    </>
  )
}
