import type { DaemonMark, DockerQueries } from './ports.ts'

/** Identifies the daemon, for the ledger. It is recorded before anything is ordered from that daemon. */
export async function markOf(queries: DockerQueries): Promise<DaemonMark | undefined> {
  const identity = await queries.identity()
  return identity === undefined ? undefined : { identity, host: queries.host }
}

/**
 * Throws when the current daemon is not the one that created the container: its answer that there is no such container then proves nothing
 * (G4). The daemon differs after a change of `docker.host`, or of the daemon's data folder.
 */
export async function requireSame(queries: DockerQueries, made: DaemonMark | undefined, signal?: AbortSignal): Promise<void> {
  if (!made) return
  const identity = await queries.identity(signal)
  if (identity === made.identity) return
  throw new Error(
    `The container was created by the Docker daemon ${made.identity} at ${made.host}, but the one at ${queries.host} is ${identity ?? 'another'}; set docker.host to the daemon that created it.`,
  )
}
