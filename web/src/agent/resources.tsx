import { fetchResources } from '../api/calls.ts'
import { useLabels } from '../api/labels.tsx'
import { useLoaded } from '../api/loaded.ts'
import type { AgentResource, Proof } from '../api/shapes.ts'
import { StateBadge } from '../pieces/badge.tsx'
import { moment, oneLine, shortName } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { Tree } from '../pieces/tree.tsx'
import { isOf, type PartProps } from './processes.tsx'

const proofSources: Readonly<Record<Proof['strength'], string>> = {
  kernel: 'by the kernel',
  api: 'by the owning service',
  scan: 'by a scan (the weaker proof)',
}

/** The agent's resources and their states. The tree shows the release order: a resource is released before the ones below it. */
export function Resources({ agentId, isActive, isPaused }: PartProps) {
  const { data, sentence, reload } = useLoaded(`resources ${agentId}`, (signal) => fetchResources(agentId, signal), {
    ...(isActive && { everyMs: 5_000 }),
    on: ['agent:updated', 'agent:terminated'],
    fits: isOf(agentId),
    isPaused,
  })
  const released = data?.filter(({ state }) => state === 'released').length ?? 0
  return (
    <section className="panel" aria-label="Resources">
      <div className="panel__head">
        <h2>Resources</h2>
        {data && data.length > 0 && (
          <span className="quiet">
            {released === data.length ? `all ${released} verified gone` : `${released} of ${data.length} verified gone`}
          </span>
        )}
      </div>
      <div className="panel__body">
        {sentence !== undefined && <Problem onRetry={reload}>{sentence}</Problem>}
        {!data && sentence === undefined && <Progress>Loading the resources</Progress>}
        {data?.length === 0 && <p className="quiet">This agent has no recorded resources.</p>}
        {data && (
          <Tree items={data} keyOf={({ id }) => id} parentOf={({ id }) => dependentOf(data, id)} label="Resources">
            {(resource) => <ResourceItem resource={resource} />}
          </Tree>
        )}
      </div>
    </section>
  )
}

/** The id of a resource that depends on this one and is therefore released first. */
function dependentOf(resources: readonly AgentResource[], id: string): string | undefined {
  return resources.find(({ dependsOn }) => dependsOn.includes(id))?.id
}

function ResourceItem({ resource: { kind, name, state, proof, error, attempts } }: { readonly resource: AgentResource }) {
  const { kindTitle } = useLabels()
  return (
    <div className="resource">
      <div className="resource__head">
        <span className="resource__kind">{kindTitle(kind)}</span>
        <StateBadge state={state} />
      </div>
      <bdi className="resource__name mono" title={oneLine(name, 1_000)}>
        {shortName(name)}
      </bdi>
      {proof && (
        <p className="resource__proof">
          Verified gone {proofSources[proof.strength]} at <time dateTime={proof.at}>{moment(proof.at)}</time>: {oneLine(proof.method, 200)}.
        </p>
      )}
      {error !== undefined && (
        <p className="resource__error">
          {oneLine(error, 1_000)}
          {attempts > 1 && ` Tried ${attempts} times.`}
        </p>
      )}
    </div>
  )
}
