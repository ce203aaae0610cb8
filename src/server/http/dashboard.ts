import { readdirSync, readFileSync } from 'node:fs'
import { extname, join, relative } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { EbbError, errno } from '../../core/model/errors.ts'

/**
 * Serves the dashboard's files from memory. They are read once, at the first request. The path of a request is looked up among the
 * names of these files, and is never used as a path on the disk. A later build does not remove the scripts of a page that is
 * already loaded.
 */

interface Served {
  readonly type: string
  readonly body: Buffer
  readonly zipped?: Buffer
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
}

/** The routes of the dashboard. They need no token: the files hold no data, and the page asks its user for the token. */
export const dashboardPaths: readonly string[] = ['/', '/assets/*']

const securityHeaders = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
} as const

const notBuilt = 'The dashboard is not built; run "npm run prepare" in the folder of Ebb, then load this page again.\n'

export function mountDashboard(app: FastifyInstance, folder: string): void {
  let files: ReadonlyMap<string, Served> | undefined
  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    files ??= read(folder)
    const path = request.url.split('?', 1)[0] ?? ''
    if (path === '/' && !files) return reply.code(503).headers(securityHeaders).type('text/plain; charset=utf-8').send(notBuilt)
    const file = files?.get(path === '/' ? '/index.html' : path)
    if (!file) throw new EbbError('not_found', `There is no ${request.method} ${path}; the dashboard is at /.`)
    return send(request, reply, file, path !== '/')
  }
  for (const path of dashboardPaths) app.get(path, answer)
}

/** File names under `/assets` contain a hash of the content, so they are cached for good. The page itself is revalidated each time. */
function send({ headers }: FastifyRequest, reply: FastifyReply, file: Served, isHashed: boolean): FastifyReply {
  reply.headers({
    ...securityHeaders,
    'Cache-Control': isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
    Vary: 'Accept-Encoding',
  })
  reply.type(file.type)
  if (!file.zipped || !takesGzip(headers['accept-encoding'])) return reply.send(file.body)
  return reply.header('Content-Encoding', 'gzip').send(file.zipped)
}

function takesGzip(accepted: string | string[] | undefined): boolean {
  const offers = [accepted ?? []].flat().join(',').split(',')
  return offers.some((offer) => /^\s*(gzip|\*)\s*(;\s*q=(1(\.0*)?|0?\.0*[1-9]\d*)\s*)?$/i.test(offer))
}

/** Reads the built files of the dashboard. Undefined when the build is not complete; the next request reads the folder again. */
function read(folder: string): ReadonlyMap<string, Served> | undefined {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    const bodies = new Map(
      entries.map(({ parentPath, name }) => {
        const path = join(parentPath, name)
        return [`/${relative(folder, path)}`, readFileSync(path)] as const
      }),
    )
    const files = new Map<string, Served>()
    for (const [name, body] of bodies) {
      const type = types[extname(name)]
      const zipped = bodies.get(`${name}.gz`)
      if (type !== undefined) files.set(name, { type, body, ...(zipped && { zipped }) })
    }
    return files.has('/index.html') ? files : undefined
  } catch (error) {
    if (errno(error) === 'ENOENT') return undefined
    throw error
  }
}
