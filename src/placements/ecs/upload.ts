import { existsSync, statSync } from 'node:fs'
import type { Policy } from '../../core/model/close-request.ts'
import { type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import { logLabels } from '../../core/ports/agent-log.ts'
import {
  type CreateCtx,
  type Created,
  type Ctx,
  type Found,
  type IntentOf,
  kindName,
  type Owner,
  type ResourceKind,
  type StepEffect,
} from '../../core/ports/kind.ts'
import { type Aws, type AwsQueries, isAwsTrouble, type ObjectAt, type OpenUpload, partBytes } from './aws.ts'
import { isSameSum, sumOf } from './checksum.ts'
import { afterLease, leasesOf } from './leases.ts'
import { isOwn, metadataOf, ownedMark } from './mark.ts'
import { remember } from './settling.ts'
import type { BucketPlace, UploadSpec } from './specs.ts'
import { uploadMs } from './times.ts'

/**
 * The upload of an agent's logs to the bucket, before its task is stopped. It is an obligation (G8), which is met when S3 itself reports
 * the size and the checksum of the files here. Until then the resource is present, whatever else is observed. Open parts of the upload are
 * removed at the end. The uploaded objects stay: they are the results of the agent.
 */

/** The path of a log, and of its archive. A close that died after archiving and uploading leaves only the archive. */
export interface LogFile {
  readonly path: string
  readonly archive: string
}

export interface UploadDetail {
  /** The log of each stream, by the name of the stream. */
  readonly files: Readonly<Record<string, LogFile>>
}

export const uploadKind = kindName<{ spec: UploadSpec; detail: UploadDetail }>('upload')

export interface UploadRef extends UploadSpec {
  readonly mark: Mark
  readonly files: UploadDetail['files']
}

export interface UploadDeps {
  readonly aws: Aws
  readonly queries: AwsQueries
  readonly installation: string
  /** The place in S3 where a listing searches for open parts. Undefined when no bucket is configured. */
  readonly place: BucketPlace | undefined
  readonly givesUpAfterMs: number | undefined
}

const obligation = 'upload'
const leastPatienceMs = 15_000

export class UploadKind implements ResourceKind<typeof uploadKind, UploadRef> {
  readonly kind = uploadKind
  readonly outlivesPower = true
  readonly isRemote = true
  readonly #deps: UploadDeps
  /** Uploads that S3 confirmed, with the proof. */
  readonly #confirmed = new Map<string, Proof>()
  /** Uploads that are released: no part is open, and the upload was confirmed, given up or never required. */
  readonly #released = new Map<string, Proof>()

  constructor(deps: UploadDeps) {
    this.#deps = deps
  }

  name(intent: IntentOf<typeof uploadKind>): UploadRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    return { ...intent.spec, mark, files: intent.detail?.files ?? {} }
  }

  describe(ref: UploadRef): string {
    return `s3://${ref.bucket}/${folderOf(ref)}`
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  givesUpAfterMs(): number | undefined {
    return this.#deps.givesUpAfterMs
  }

  patienceMs({ files }: UploadRef): number {
    const bytes = Object.values(files).reduce((sum, file) => sum + (statSync(file.path, { throwIfNoEntry: false })?.size ?? 0), 0)
    return leastPatienceMs + uploadMs(bytes)
  }

  async create(_ref: UploadRef, _spec: UploadSpec, ctx: CreateCtx): Promise<Created<typeof uploadKind>> {
    const files = Object.fromEntries(
      logLabels.map((label) => {
        const { path, archive } = ctx.handles.get(label)
        return [label, { path, archive }]
      }),
    )
    return { detail: { files } }
  }

  async observe({ mark }: UploadRef, _ctx: Ctx): Promise<Presence> {
    const proof = this.#released.get(mark.resourceId)
    return proof ? absent(proof) : present(this.#confirmed.has(mark.resourceId) ? 'parts of the upload may be open' : 'not confirmed yet')
  }

  obligations({ mark, files }: UploadRef, policy: Policy): readonly string[] {
    const isOwed = policy.keepsLogs && Object.keys(files).length > 0 && !this.#confirmed.has(mark.resourceId)
    return isOwed ? [obligation] : []
  }

  async meet(_obligation: string, ref: UploadRef, ctx: Ctx): Promise<void> {
    await Promise.all(Object.entries(ref.files).map(([stream, log]) => this.#uploadFile(ref, stream, log, ctx)))
    if (ctx.signal.aborted) return
    const proof: Proof = { method: 'HeadObject: size and SHA-256 are those of the logs', strength: 'api', at: ctx.clock.wall() }
    remember(this.#confirmed, ref.mark.resourceId, proof)
  }

  /** Uploads one file, and verifies it with S3. */
  async #uploadFile(ref: UploadRef, stream: string, log: LogFile, ctx: Ctx): Promise<void> {
    const { aws, queries } = this.#deps
    const object: ObjectAt = {
      bucket: ref.bucket,
      key: `${folderOf(ref)}${logName(stream)}`,
      ...(ref.region !== undefined && { region: ref.region }),
    }
    const name = `s3://${object.bucket}/${object.key}`
    const file = [log.path, log.archive].find((one) => existsSync(one))
    if (file === undefined) throw new Error(`the log ${log.path} is gone, so it cannot be uploaded to ${name}; a forced close gives it up`)
    const metadata = { ...metadataOf(ref.mark), 'ebb-stream': stream }
    const sum = await sumOf(file, partBytes)
    // An earlier attempt whose reply was lost, or an earlier supervisor, may have uploaded the file. A file that S3 has is not sent again.
    let seen = await queries.head(object, ctx)
    for (let attempt = 1; ; attempt++) {
      if (seen && isSameSum(sum, seen) && isOwn(ref.mark, seen.metadata)) return
      if (seen && !isOwn(ref.mark, seen.metadata)) throw new Error(`something else is at ${name} and is not overwritten; move or delete it`)
      if (attempt === 3) throw new Error(`S3 does not confirm size and checksum of ${name}; the upload is retried`)
      const replaces = seen?.etag
      try {
        await aws.upload({ ...object, metadata, ...(replaces !== undefined && { replaces }) }, file, ctx)
      } catch (error) {
        // `taken` means that the object was written meanwhile, by an attempt whose reply was lost or by somebody else. The query below
        // finds out which.
        if (!isAwsTrouble(error, 'taken')) throw error
      }
      seen = await queries.head(object, ctx)
    }
  }

  /** Aborts the unfinished multipart uploads, because AWS charges for their parts. The logs are not owed any more at this point. */
  async release(ref: UploadRef, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const { aws } = this.#deps
    const open = await this.#open(ref, ctx)
    await Promise.all(open.map((one) => aws.abortUpload(one, ctx)))
    // An upload that is aborted while a part is being sent may keep that part and must be aborted again (AbortMultipartUpload, S3 API).
    if (open.length > 0 && (await this.#open(ref, ctx)).length > 0) throw new Error('parts of the upload are still open')
    const nothing: Proof = {
      method: 'no upload is owed, and ListMultipartUploads shows no open part',
      strength: 'api',
      at: ctx.clock.wall(),
    }
    remember(this.#released, ref.mark.resourceId, this.#confirmed.get(ref.mark.resourceId) ?? nothing)
    return {}
  }

  /**
   * The unfinished uploads of this agent. Only keys that follow from the intent count: other objects in the same folder are foreign (G10).
   */
  async #open(ref: UploadRef, ctx: Ctx): Promise<readonly OpenUpload[]> {
    const { bucket, region } = ref
    const open = await this.#deps.queries.openUploads({ bucket, key: folderOf(ref), ...(region !== undefined && { region }) }, ctx)
    return open.filter(({ key }) => isLog(key.slice(folderOf(ref).length)))
  }

  async gone({ mark }: UploadRef, _ctx: Ctx): Promise<Proof> {
    const proof = this.#released.get(mark.resourceId)
    if (!proof) throw new Error('the upload has not been released')
    return proof
  }

  /**
   * Lists open parts below the prefix of this installation, for the reaper only. Parts have no metadata, so their owner follows from the
   * lease, which is deleted after them. A close derives the keys from the intent.
   */
  async *list(owner: Owner, ctx: Ctx): AsyncIterable<Found<UploadSpec>> {
    const { queries, place, installation } = this.#deps
    if (owner.scopeIds || !place) return
    const { bucket, prefix, region } = place
    const root = `${prefix}/results/`
    const [open, leases] = await Promise.all([
      queries.openUploads({ bucket, key: root, ...(region !== undefined && { region }) }, ctx),
      leasesOf(queries, place, installation, ctx),
    ])
    const agentIds = new Set(open.flatMap(({ key }) => agentOf(key.slice(root.length))))
    for (const { seen } of leases) {
      const lease = ownedMark(owner, seen.metadata)
      if (!lease || !agentIds.has(scopeOfResource(lease.resourceId))) continue
      const id = afterLease(lease.resourceId, 'upload')
      const spec: UploadSpec = { ...place, installation }
      yield { resourceId: id, incarnation: lease.incarnation, name: `s3://${bucket}/${root}${scopeOfResource(id)}/`, spec }
    }
  }
}

function folderOf({ prefix, mark }: UploadRef): string {
  return `${prefix}/results/${scopeOfResource(mark.resourceId)}/`
}

function logName(stream: string): string {
  return `${stream}.log`
}

function isLog(name: string): boolean {
  return logLabels.some((label) => name === logName(label))
}

/** The id of the agent in a key below the results folder. Empty when the key is not the key of a log. */
function agentOf(key: string): readonly string[] {
  const [agentId = '', name = '', ...deeper] = key.split('/')
  return isLog(name) && deeper.length === 0 ? [agentId] : []
}
