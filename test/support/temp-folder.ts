import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Handles } from '../../src/core/ports/handles.ts'
import type { CreateCtx, DetailOf, IntentOf } from '../../src/core/ports/kind.ts'
import { realClock } from '../../src/host/clock.ts'
import { realEffects } from '../../src/host/effects.ts'
import { TempFolderKind, type TempFolderRef, type tempFolderKind } from '../../src/kinds/temp-folder/kind.ts'
import { nodeProgram, temporaryHome } from './home.ts'

/** The temp-folder kind without an engine, with a base folder and a home of its own. */

export const scopeId = '0f1e2d3c-4b5a-4678-9abc-def012345678'
export const host = { installation: 'a1b2c3d4e5f6', incarnationId: 'f0e1d2c3b4a5-4026531836-4711-987654' }
const installation = host.installation

export const ctx: CreateCtx<typeof tempFolderKind> = {
  signal: new AbortController().signal,
  clock: realClock,
  live: undefined,
  handles: new Handles(),
  record: async () => {},
}

export function intentOf(
  base: string,
  detail?: DetailOf<typeof tempFolderKind>,
  more: Partial<IntentOf<typeof tempFolderKind>> = {},
): IntentOf<typeof tempFolderKind> {
  return {
    id: `${scopeId}.1`,
    scopeId,
    incarnation: host.incarnationId,
    kind: 'temp-folder',
    spec: { installation, base },
    ...(detail !== undefined && { detail }),
    dependsOn: [],
    onLoss: 'end',
    ...more,
  }
}

export interface Scene {
  readonly base: string
  readonly directory: string
  readonly kind: TempFolderKind
  readonly ref: TempFolderRef
}

export function sceneIn(base = temporaryHome(), effects = realEffects): Scene {
  const directory = temporaryHome()
  const kind = new TempFolderKind({ effects, host, directory })
  return { base, directory, kind, ref: kind.name(intentOf(base)) }
}

/** A temp folder as a launch creates it. */
export async function made(effects = realEffects): Promise<Scene> {
  const scene = sceneIn(temporaryHome(), effects)
  const { detail } = await scene.kind.create(scene.ref, intentOf(scene.base).spec, ctx)
  return { ...scene, ref: scene.kind.name(intentOf(scene.base, detail)) }
}

/** Makes a tree whose path is longer than PATH_MAX, by changing into each folder in turn. */
export function makeDeep(folder: string, levels: number): void {
  const script = `process.chdir(${JSON.stringify(folder)}); const fs = require('node:fs')
    for (let i = 0; i < ${levels}; i++) { fs.mkdirSync('folder-of-a-long-name'); fs.writeFileSync('file', ''); process.chdir('folder-of-a-long-name') }`
  execFileSync(nodeProgram, ['-e', script])
}

export function makeMany(folder: string, count: number): void {
  mkdirSync(folder)
  execFileSync('sh', ['-c', `cd "$0" && seq ${count} | xargs touch`, folder])
}

/** A folder with foreign files, which must survive the test. */
export function foreign(): string {
  const folder = temporaryHome()
  mkdirSync(join(folder, 'inner'))
  execFileSync('sh', ['-c', 'echo theirs >"$0/file"; echo theirs >"$0/inner/file"', folder])
  return folder
}
