import { useState } from 'react'
import { nameOf } from '../agents/names.ts'
import { fetchAgent } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
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

/** One agent: what it says, what runs of it, what it made in the world, and the proof that it is gone. */
export function AgentView({ id }: { readonly id: string }) {
  // Of what is being deleted nothing is asked: it may be gone while the question is on its way.
  const [isDeleting, setDeleting] = useState(false)
  const [isDeleted, setDeleted] = useState(false)
  useLive<{ agentId: string }>('agent:deleted', ({ agentId }) => {
    if (agentId === id) setDeleted(true)
  })
  const isOff = isDeleting || isDeleted
  const {
    data: agent,
    error,
    sentence,
    reload,
  } = useLoaded(`agent ${id}`, (signal) => fetchAgent(id, signal), {
    on: ['agent:updated', 'agent:terminated'],
    fits: isOf(id),
    isOff,
  })
  if (isDeleted && !isDeleting) return <Gone id={id} why="deleted" />
  if (error instanceof ApiError && error.status === 404) return <Gone id={id} why="unknown" />
  if (error instanceof ApiError && error.status === 400) return <Gone id={id} why="malformed" />
  if (!agent)
    return (
      <>
        <ViewHead title={`Agent ${shortId(id)}`} />
        {sentence === undefined ? <Progress>Asking for the agent</Progress> : <Problem onRetry={reload}>{sentence}</Problem>}
      </>
    )
  return <Known agent={agent} sentence={sentence} reload={reload} isOff={isOff} onDeleting={setDeleting} />
}

interface KnownProps {
  readonly agent: Agent
  /** Why what is shown may be old. */
  readonly sentence: string | undefined
  readonly reload: () => void
  readonly isOff: boolean
  readonly onDeleting: (isDeleting: boolean) => void
}

function Known({ agent, sentence, reload, isOff, onDeleting }: KnownProps) {
  const { id } = agent
  const conversation = useConversation(id, agent.session.messageCount)
  const isLiving = !isFinal(agent.status)
  return (
    <>
      <ViewHead title={nameOf(agent, 90)} documentTitle={`${nameOf(agent, 40)} · ${agent.status}`} above={<Back />}>
        <Actions agent={agent} isOver={!isLiving} conversation={conversation} onChange={reload} onDeleting={onDeleting} />
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
          <Processes agent={agent} isOff={isOff} />
          <Resources agentId={id} isLiving={isLiving} isOff={isOff} />
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
  const { status, type, placement, namespace, requestId, taskId, createdAt, startedAt, completedAt, exitCode, signal, session } = agent
  const { workingDirectory, model } = session.configuration
  const facts: readonly (readonly [string, React.ReactNode])[] = [
    ['Status', <StatusBadge key="status" status={status} />],
    ['Provider', model === undefined ? type : `${type}, ${oneLine(model, 60)}`],
    ['Placement', placement],
    ['Age', <Age key="age" at={createdAt} />],
    // What is stuck has no end yet, and may run no more.
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

const goneWords = {
  deleted: { title: 'This agent was deleted.', text: 'The cleanup history has the proof that it is gone.' },
  unknown: {
    title: 'This agent is not here.',
    text: 'If there was one and it was deleted, the cleanup history has the proof that it is gone.',
  },
  malformed: {
    title: 'No agent has such an id.',
    text: 'An id is as in 6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11; a part of this one may be missing.',
  },
} as const

function Gone({ id, why }: { readonly id: string; readonly why: keyof typeof goneWords }) {
  const { title, text } = goneWords[why]
  return (
    <>
      <ViewHead title={`Agent ${shortId(id)}`} above={<Back />} />
      <Empty title={title}>
        <p>{text}</p>
        <p>{why === 'malformed' ? <a href={hrefOf('agents')}>To the agents</a> : <a href={hrefOf('cleanup')}>To the cleanup history</a>}</p>
      </Empty>
    </>
  )
}
