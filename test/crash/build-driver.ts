import { join } from 'node:path'
import { rolldown } from 'rolldown'

/** FOLDER: bundles the driver, and the programs that its sentinel and subreaper processes run, into FOLDER. */

const [, , folder = ''] = process.argv
const root = join(import.meta.dirname, '..', '..')

async function bundle(input: Record<string, string>): Promise<void> {
  const external = [/^@aws-sdk\//, 'koffi', 'dockerode', 'fastify', 'socket.io', 'zod', 'pino', 'prom-client']
  const build = await rolldown({ input, platform: 'node', external, logLevel: 'warn' })
  await build.write({ dir: join(folder, 'dist'), format: 'cjs', entryFileNames: '[name].cjs', chunkFileNames: '[name]-[hash].cjs' })
  await build.close()
}

// Separate bundles: a chunk that both share could contain the driver, which would then run when main loads it.
await bundle({ main: join(root, 'src/main.ts'), 'subreaper-process': join(root, 'src/host/containment/subreaper-process.ts') })
await bundle({ driver: join(root, 'test/crash/driver.ts') })
