import type { DaemonMark, DockerQueries } from './ports.ts'

/** Which daemon we speak to, as it goes into the ledger before anything is ordered there. */
export async function markOf(looks: DockerQueries): Promise<DaemonMark | undefined> {
  const identity = await looks.identity()
  return identity === undefined ? undefined : { identity, host: looks.host }
}

/**
 * Throws when the daemon that we speak to is not the one that made the container: that it knows of none says nothing then (G4).
 * Another one answers when `docker.host` was changed, or its data folder.
 */
export async function requireSame(looks: DockerQueries, made: DaemonMark | undefined, signal?: AbortSignal): Promise<void> {
  if (!made) return
  const identity = await looks.identity(signal)
  if (identity === made.identity) return
  throw new Error(
    `The container was made by the Docker daemon ${made.identity} at ${made.host}, and the one at ${looks.host} is ${identity ?? 'another'}; set docker.host to the first.`,
  )
}
