import { fetchResources } from '../api/calls.ts'
import { useLoaded } from '../api/loaded.ts'
import type { AgentResource, Proof } from '../api/shapes.ts'
import { StateBadge } from '../pieces/badge.tsx'
import { moment, oneLine, shortName } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { Tree } from '../pieces/tree.tsx'
import { isOf, type PartProps } from './processes.tsx'

const vouchers: Readonly<Record<Proof['strength'], string>> = {
  kernel: 'by the kernel',
  api: 'by its own service',
  scan: 'by a scan (the weaker proof)',
}

/** What it made in the world, and what became of each. What stands on something goes before it: the tree is the order. */
export function Resources({ agentId, isLiving, isOff }: PartProps) {
  const { data, sentence, reload } = useLoaded(`resources ${agentId}`, (signal) => fetchResources(agentId, signal), {
    ...(isLiving && { everyMs: 5_000 }),
    on: ['agent:updated', 'agent:terminated'],
    fits: isOf(agentId),
    isOff,
  })
  const released = data?.filter(({ state }) => state === 'released').length ?? 0
  return (
    <section className="panel" aria-label="Resources">
      <div className="panel__head">
        <h2>Resources</h2>
        {data && data.length > 0 && (
          <span className="quiet">
            {released === data.length ? `all ${released} seen gone` : `${released} of ${data.length} seen gone`}
          </span>
        )}
      </div>
      <div className="panel__body">
        {sentence !== undefined && <Problem onRetry={reload}>{sentence}</Problem>}
        {!data && sentence === undefined && <Progress>Asking the ledger</Progress>}
        {data?.length === 0 && <p className="quiet">It made nothing in the world.</p>}
        {data && (
          <Tree items={data} keyOf={({ id }) => id} parentOf={({ id }) => dependentOf(data, id)} label="Resources">
            {(resource) => <OneResource resource={resource} />}
          </Tree>
        )}
      </div>
    </section>
  )
}

/** What stands on it, and therefore goes first. */
function dependentOf(resources: readonly AgentResource[], id: string): string | undefined {
  return resources.find(({ dependsOn }) => dependsOn.includes(id))?.id
}

function OneResource({ resource: { kind, name, state, proof, error, attempts } }: { readonly resource: AgentResource }) {
  return (
    <div className="resource">
      <div className="resource__head">
        <span className="resource__kind">{kind}</span>
        <StateBadge state={state} />
      </div>
      <bdi className="resource__name mono" title={oneLine(name, 1_000)}>
        {shortName(name)}
      </bdi>
      {proof && (
        <p className="resource__proof">
          Seen gone {vouchers[proof.strength]} at <time dateTime={proof.at}>{moment(proof.at)}</time>: {oneLine(proof.method, 200)}.
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
